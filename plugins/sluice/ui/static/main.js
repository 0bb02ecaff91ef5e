// The page of a report: figures, the busiest users of a window, and the last day.

import { ask } from "./ask.js";
import { drawBars } from "./bars.js";
import { chooseWindow, chosenWhose, chosenWindow, listen, offer } from "./choice.js";
import { drawDay } from "./day.js";
import { live } from "./live.js";
import { plotly } from "./plot.js";
import { showStanding } from "./standing.js";
import { fillTable } from "./table.js";
import { age, count, moment, rate, span } from "./words.js";

const at = (id) => document.getElementById(id);
const { stream, patienceMinutes } = document.body.dataset;
const OLD_SECONDS = Number(patienceMinutes) * 60;

const say = (text) => {
  at("announcer").textContent = text;
};

const question = () => {
  const window = chosenWindow();
  return ask(`reports/${encodeURIComponent(stream)}`, { whose: chosenWhose(), ...(window === "" ? {} : { window }) });
};

const tick = (data, now, trouble) => {
  const newest = data.newest === null ? null : now - data.newest;
  at("newest").textContent = newest === null ? "none yet" : `${age(newest)} ago`;
  at("newest").dataset.old = String(Boolean(trouble) || (newest !== null && newest > OLD_SECONDS));
  at("written").textContent = data.at === null ? "no report yet" : `report written ${age(now - data.at)} ago`;
  showStanding(at("verdict"), at("parts"), at("supervision"), data.standing, now, !trouble);
};

const showFigures = ({ pace, newest, late, watermark, records }, now) => {
  at("pace").textContent = pace === null ? "unknown" : rate(pace);
  at("newest-at").textContent = newest === null ? "" : `at ${moment(newest, now)}`;
  at("late").textContent = count(late);
  at("watermark").textContent = watermark === null ? "none yet" : moment(watermark, now);
  at("records").textContent = count(records);
};

const sums = ({ edits, editors, late, open }) => {
  const lateOnes = late ? `, ${count(late)} more came late` : "";
  return `${count(edits)} edits by ${count(editors)} users${lateOnes} · ${open ? "still counting" : "closed"}`;
};

const showWindow = ({ window, windows }, now) => {
  const reason = window === null
    ? (windows.length ? "This window is not in the report any more: choose another." : "No edits were counted yet.")
    : (window.top.length ? "" : "Nobody of these edited in this window.");
  at("window-title").textContent = window === null ? "No window" : span(window.start, window.end, now);
  at("window-sums").textContent = window === null ? "" : sums(window);
  at("empty").textContent = reason;
  at("empty").hidden = reason === "";
  at("both").hidden = reason !== "";
  fillTable(at("rows"), window?.top ?? []);
};

const draw = async ({ window, windows }, now) => {
  try {
    await plotly;
  } catch {
    at("chart").hidden = true;
    at("no-chart").hidden = false;
    return;
  }
  // The answer may have been replaced while the library loaded: then the later call draws.
  if (page.data().window !== window) return;
  if (window?.top.length) await drawBars(at("chart"), window.top);
  await drawDay(at("day"), windows, window?.start, chosenWhose(), now, (start) => chooseWindow(String(start)));
};

const show = (data, now) => {
  showFigures(data, now);
  offer(data.windows, now);
  showWindow(data, now);
};

const page = live({ question, show, tick, draw, missing: "There is no report yet" });

listen(async () => {
  if (await page.refresh()) {
    const { window, now } = page.data();
    say(window === null ? at("empty").textContent : `${span(window.start, window.end, now)}: ${sums(window)}`);
  }
});
page.refresh();
