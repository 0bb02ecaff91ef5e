// Polls the server every few seconds, shows the answer, and says if there is none.

import { age, zone } from "./format.js";

const at = (id) => document.getElementById(id);
const REFRESH_MS = Number(document.body.dataset.refreshSeconds) * 1000;

/** Keep the page up to date.
 *
 * `request()` fetches the data, whose `now` is the server's time. `show(data, now)` is called with every answer;
 * `tick(data, now, error)` then, every second, and if there was no answer (ages grow); `draw(data,
 * now)` after an answer, and when the colours change. `missing`: start of the message if there is no data yet.
 * Returns `refresh()`, which requests at once and returns whether that succeeded, and `data()`, the last answer.
 */
export const poll = ({ request, show, tick, draw, missing }) => {
  const state = { data: null, received: 0, error: null, asked: 0, timer: 0 };

  // The server's clock, carried on by this machine's: its own may be wrong by hours.
  const passed = () => (performance.now() - state.received) / 1000;
  const now = () => state.data.now + passed();

  const showAges = () => {
    const { data, error } = state;
    const freshness = at("freshness");
    if (!data) {
      freshness.dataset.state = error ? "failing" : "waiting";
      at("freshness-text").textContent = error ? "no data" : "loading …";
      return;
    }
    freshness.dataset.state = error ? "failing" : "live";
    at("freshness-text").textContent = error
      ? `not refreshed for ${age(passed())}`
      : `updated ${age(passed())} ago`;
    tick(data, now(), error);
  };

  const showError = () => {
    const notice = at("error");
    const { error } = state;
    notice.hidden = error === null;
    if (error === null) {
      notice.textContent = "";
      return;
    }
    notice.dataset.kind = error.kind;
    const words = error.kind === "missing"
      ? `${missing}: ${error.message}.`
      : `Could not refresh: ${error.message}.${state.data ? " The values below are the last known ones." : ""}`;
    // Only where it changed: the same words again would be read aloud again.
    if (notice.textContent !== words) notice.textContent = words;
  };

  const redraw = () => (state.data ? draw(state.data, now()) : undefined);

  const refresh = async () => {
    clearTimeout(state.timer);
    const number = ++state.asked;
    let data = null;
    let error = null;
    try {
      data = await request();
    } catch (failure) {
      error = failure;
    }
    // A newer request is under way: its answer counts.
    if (number !== state.asked) return false;
    state.error = error;
    if (data) {
      state.data = data;
      state.received = performance.now();
    }
    state.timer = setTimeout(refresh, REFRESH_MS);
    showError();
    if (data) {
      document.body.classList.remove("waiting");
      show(data, now());
    }
    showAges();
    if (data) await redraw();
    return data !== null;
  };

  // Timers almost stop in a hidden tab: refresh as soon as it is shown again.
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && passed() * 1000 > REFRESH_MS) refresh();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  at("zone").textContent = zone;
  setInterval(showAges, 1000);
  return { refresh, data: () => state.data };
};
