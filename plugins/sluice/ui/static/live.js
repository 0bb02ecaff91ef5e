// A page's life: it asks for news every few seconds, shows the answer, and says when there is none.

import { age, zone } from "./words.js";

const at = (id) => document.getElementById(id);
const REFRESH_MS = Number(document.body.dataset.refreshSeconds) * 1000;

/** Keep the page up to date.
 *
 * `question()` asks for the data, whose `now` is the server's time. `show(data, now)` is called with every answer;
 * `tick(data, now, trouble)` then, every second, and when there was no answer: ages grow all the time; `draw(data,
 * now)` after an answer, and when the colours change. `missing`: what there is not yet, as a sentence's beginning.
 * Returns `refresh()`, which asks at once and tells whether that was answered, and `data()`, the last answer.
 */
export const live = ({ question, show, tick, draw, missing }) => {
  const state = { data: null, received: 0, trouble: null, asked: 0, timer: 0 };

  // The server's clock, carried on by this machine's: its own may be wrong by hours.
  const passed = () => (performance.now() - state.received) / 1000;
  const now = () => state.data.now + passed();

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
    tick(data, now(), trouble);
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
      ? `${missing}: ${trouble.message}.`
      : `Could not refresh: ${trouble.message}.${state.data ? " Below is what was known before." : ""}`;
    // Only where it changed: the same words again would be read aloud again.
    if (notice.textContent !== words) notice.textContent = words;
  };

  const redraw = () => (state.data ? draw(state.data, now()) : undefined);

  const refresh = async () => {
    clearTimeout(state.timer);
    const number = ++state.asked;
    let found = null;
    let trouble = null;
    try {
      found = await question();
    } catch (error) {
      trouble = error;
    }
    // Something else was asked meanwhile: that question's answer counts.
    if (number !== state.asked) return false;
    state.trouble = trouble;
    if (found) {
      state.data = found;
      state.received = performance.now();
    }
    state.timer = setTimeout(refresh, REFRESH_MS);
    showTrouble();
    if (found) {
      document.body.classList.remove("waiting");
      show(found, now());
    }
    showAges();
    if (found) await redraw();
    return found !== null;
  };

  // Timers stand nearly still in a hidden tab: who comes back sees news at once.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && passed() * 1000 > REFRESH_MS) refresh();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  at("zone").textContent = zone;
  setInterval(showAges, 1000);
  return { refresh, data: () => state.data };
};
