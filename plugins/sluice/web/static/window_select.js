// Which window and which kind of groups: the selectors, and the page's address, which keeps them over a reload.

import { count, span } from "./format.js";
import { counted } from "./words.js";

const select = document.getElementById("window");
const older = document.getElementById("older");
const newer = document.getElementById("newer");
const form = document.getElementById("choose");

/** "" for the latest window, else its start as the server writes it. */
export const chosenWindow = () => select.value;
/** "all", or a kind; a page without kinds has no such selector. */
export const chosenWhose = () => form.elements.whose?.value ?? "all";

const optionFor = (value) => [...select.options].find((option) => option.value === value);

const remember = () => {
  const query = new URLSearchParams();
  if (chosenWindow() !== "") query.set("window", chosenWindow());
  if (chosenWhose() !== "all") query.set("whose", chosenWhose());
  const text = query.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
};

const setSteps = () => {
  older.disabled = select.selectedIndex >= select.options.length - 1;
  newer.disabled = select.selectedIndex <= 0;
};

/** Choose a window as if by the selector. */
export const chooseWindow = (value) => {
  if (!optionFor(value)) return;
  select.value = value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
};

/** `changed()` is called whenever a person chose something else. */
export const listen = (changed) => {
  const asked = new URLSearchParams(location.search);
  const start = asked.get("window");
  if (start !== null && Number.isFinite(Number(start)) && start.trim() !== "") {
    select.add(new Option("…", start));
    select.value = start;
  }
  const whose = [...(form.elements.whose ?? [])].find((radio) => radio.value === asked.get("whose"));
  if (whose) whose.checked = true;
  // Over what is latest, one step back is the window before: the first two options are the same window.
  const step = (by) => {
    let index = select.selectedIndex + by;
    if (index === 1) index += by;
    chooseWindow(select.options[Math.min(Math.max(index, 0), select.options.length - 1)].value);
  };
  older.addEventListener("click", () => step(1));
  newer.addEventListener("click", () => step(-1));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", () => {
    setSteps();
    remember();
    changed();
  });
};

/** The windows there are, newest first, into the selector; what is chosen stays chosen. */
export const offer = (windows, now) => {
  const total = (values) => values.reduce((sum, value) => sum + value, 0);
  const label = ({ start, end, values }) => `${span(start, end, now)} · ${count(total(values))} ${counted}`;
  const wanted = [
    ["", windows.length ? `Latest (${span(windows[0].start, windows[0].end, now)})` : "Latest"],
    ...windows.map((window) => [String(window.start), label(window)]),
  ];
  const kept = select.value;
  if (!wanted.some(([value]) => value === kept)) wanted.push([kept, "a window that is gone"]);
  // In place: an open list stays open, and the reader's place in it too.
  const fresh = wanted.map(([value, text]) => {
    const option = optionFor(value) ?? new Option("", value);
    if (option.text !== text) option.text = text;
    return option;
  });
  const same = fresh.length === select.options.length && fresh.every((option, n) => option === select.options[n]);
  if (!same) {
    select.replaceChildren(...fresh);
    select.value = kept;
  }
  setSteps();
};
