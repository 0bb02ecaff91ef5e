// The page: asks for news every few seconds, shows the answer, and says when there is none.

import { ask } from "./ask.js";
import { drawBars } from "./bars.js";
import { chooseWindow, chosenWhose, chosenWindow, listen, offer } from "./choice.js";
import { drawDay } from "./day.js";
import { plotly } from "./plot.js";
import { showStanding } from "./standing.js";
import { fillTable } from "./table.js";
import { age, clock, count, moment, rate, span, zone } from "./words.js";

const at = (id) => document.getElementById(id);
const { stream, refreshSeconds, patienceMinutes } = document.body.dataset;
const REFRESH_MS = Number(refreshSeconds) * 1000;
const OLD_SECONDS = Number(patienceMinutes) * 60;

const state = { data: null, received: 0, trouble: null, asked: 0, timer: 0, busy: false };

// The server's clock, carried on by this machine's: its own may be wrong by hours.
const passed = () => (performance.now() - state.received) / 1000;
const now = () => state.data.now + passed();

const say = (text) => {
  at("announcer").textContent = text;
};

const showAges = () => {
  const { data, trouble } = state;
  const freshness = at("freshness");
  if (!data) {
    freshness.dataset.state = trouble ? "failing" : "waiting";
    at("freshness-text").textContent = trouble ? "no data" : "loading …";
    return;
  }
  freshness.dataset.state = trouble ? "failing" : "live";
  at("freshness-text").textContent = trouble
    ? `not refreshed for ${age(passed())}`
    : `updated ${age(passed())} ago`;
  const newest = data.newest === null ? null : now() - data.newest;
  at("newest").textContent = newest === null ? "none yet" : `${age(newest)} ago`;
  at("newest").dataset.old = String(Boolean(trouble) || (newest !== null && newest > OLD_SECONDS));
  at("written").textContent = data.at === null ? "no report yet" : `report written ${age(now() - data.at)} ago`;
  showStanding(at("verdict"), at("parts"), at("supervision"), data.standing, now(), !trouble);
};

const showFigures = ({ pace, newest, late, watermark, records }) => {
  at("pace").textContent = pace === null ? "unknown" : rate(pace);
  at("newest-at").textContent = newest === null ? "" : `at ${moment(newest, now())}`;
  at("late").textContent = count(late);
  at("watermark").textContent = watermark === null ? "none yet" : moment(watermark, now());
  at("records").textContent = count(records);
};

const sums = ({ edits, editors, late, open }) => {
  const lateOnes = late ? `, ${count(late)} more came late` : "";
  return `${count(edits)} edits by ${count(editors)} users${lateOnes} · ${open ? "still counting" : "closed"}`;
};

const showWindow = ({ window, windows }) => {
  const reason = window === null
    ? (windows.length ? "This window is not in the report any more: choose another." : "No edits were counted yet.")
    : (window.top.length ? "" : "Nobody of these edited in this window.");
  at("window-title").textContent = window === null ? "No window" : span(window.start, window.end, now());
  at("window-sums").textContent = window === null ? "" : sums(window);
  at("empty").textContent = reason;
  at("empty").hidden = reason === "";
  at("both").hidden = reason !== "";
  fillTable(at("rows"), window?.top ?? []);
};

const drawCharts = async () => {
  const { window, windows } = state.data;
  try {
    await plotly;
  } catch {
    at("chart").hidden = true;
    at("no-chart").hidden = false;
    return;
  }
  // The answer may have been replaced while the library loaded: then the later call draws.
  if (state.data.window !== window) return;
  if (window?.top.length) await drawBars(at("chart"), window.top);
  await drawDay(at("day"), windows, window?.start, chosenWhose(), now(), (start) => chooseWindow(String(start)));
};

const show = () => {
  document.body.classList.remove("waiting");
  showFigures(state.data);
  offer(state.data.windows, now());
  showWindow(state.data);
  showAges();
  return drawCharts();
};

const showTrouble = () => {
  const notice = at("trouble");
  const { trouble } = state;
  notice.hidden = trouble === null;
  if (trouble === null) {
    notice.textContent = "";
    return;
  }
  notice.dataset.kind = trouble.kind;
  const words = trouble.kind === "missing"
    ? `There is no report yet: ${trouble.message}.`
    : `Could not refresh: ${trouble.message}.${state.data ? " Below is what was known before." : ""}`;
  // Only where it changed: the same words again would be read aloud again.
  if (notice.textContent !== words) notice.textContent = words;
};

const refresh = async () => {
  clearTimeout(state.timer);
  const number = ++state.asked;
  let found = null;
  let trouble = null;
  try {
    found = await ask(stream, chosenWindow(), chosenWhose());
  } catch (error) {
    trouble = error;
  }
  // Somebody chose another window meanwhile: that question's answer counts.
  if (number !== state.asked) return false;
  state.trouble = trouble;
  if (found) {
    state.data = found;
    state.received = performance.now();
  }
  state.timer = setTimeout(refresh, REFRESH_MS);
  showTrouble();
  showAges();
  if (found) await show();
  return found !== null;
};

listen(async () => {
  if (await refresh()) {
    const { window } = state.data;
    say(window === null ? at("empty").textContent : `${span(window.start, window.end, now())}: ${sums(window)}`);
  }
});
// Timers stand nearly still in a hidden tab: who comes back sees news at once.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && passed() * 1000 > REFRESH_MS) refresh();
});
const redraw = () => {
  if (state.data) drawCharts();
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
at("zone").textContent = zone;
setInterval(showAges, 1000);
refresh();
