// Pages that the server renders whole: fetches the page again, and replaces the sections that changed.
// Without this script they are the same, as of when they were loaded.

import { age, moment, zone } from "./format.js";

const TIMEOUT_MS = 8000;
const at = (id) => document.getElementById(id);
const REFRESH_MS = Number(document.body.dataset.refreshSeconds) * 1000;
let received = Date.now();
let failed = "";
let timer;
// Id of a section -> its HTML as the server wrote it.
const sources = new Map();

// The server writes UTC; the reader's zone is Airflow's.
const localize = (root) => {
  for (const time of root.querySelectorAll("time")) {
    time.title = time.textContent;
    time.textContent = moment(Date.parse(time.dateTime) / 1000, Date.now() / 1000);
    time.setAttribute("aria-label", `${time.textContent} ${zone}`);
  }
};

const replaceChanged = (fresh) => {
  const main = document.querySelector("main");
  const isKept = (node) => node.matches("header, #error");
  const old = [...main.children].filter((node) => !isKept(node));
  const wanted = [...fresh.querySelector("main").children].filter((node) => !isKept(node));
  const same = old.length === wanted.length && wanted.every((node, n) => node.id === old[n].id);
  const open = new Set([...main.querySelectorAll("details[open]")].map((node) => node.id));
  const focused = document.activeElement?.closest("[id]")?.id;
  const severities = summary(main);
  wanted.forEach((node, n) => {
    for (const details of node.querySelectorAll("details")) details.open = open.has(details.id);
    if (same) {
      // A reader who has selected text or stands in a section keeps it until it is left.
      if (node.innerHTML !== sources.get(node.id) && !old[n].contains(document.activeElement)) put(node, old[n]);
    } else put(node, null);
  });
  if (!same) {
    for (const node of old) node.remove();
    if (focused) at(focused)?.focus();
  }
  const now = summary(main);
  if (now !== severities) at("announcer").textContent = now;
};

const put = (node, old) => {
  sources.set(node.id, node.innerHTML);
  const made = document.importNode(node, true);
  localize(made);
  if (old) old.replaceWith(made);
  else document.querySelector("main").append(made);
};

/** What a screen reader is told when it changes. */
const summary = (root) =>
  [...root.querySelectorAll("tbody .pill")]
    .filter((pill) => pill.dataset.severity === "error")
    .map((pill) => `${pill.closest("section").querySelector("h2").textContent}: ${pill.textContent}`)
    .join("; ") || "No component needs a person";

const show = () => {
  const seconds = (Date.now() - received) / 1000;
  const freshness = at("freshness");
  freshness.dataset.state = failed ? "failing" : "live";
  at("freshness-text").textContent = failed ? `as of ${age(seconds)} ago` : `updated ${age(seconds)} ago`;
  at("error").hidden = !failed;
  at("error").textContent = failed;
};

const refresh = async () => {
  try {
    const answer = await fetch(location.href, {
      cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.status === 401) throw new Error("your login has ended: reload Airflow and log in again");
    if (answer.status === 403 || answer.status === 404) throw new Error("you are not allowed to see this page");
    if (!answer.ok) throw new Error(`the server says ${answer.status}`);
    replaceChanged(new DOMParser().parseFromString(await answer.text(), "text/html"));
    received = Date.now();
    failed = "";
  } catch (error) {
    const slow = error.name === "TimeoutError" ? `no answer within ${TIMEOUT_MS / 1000} s` : error.message;
    failed = `This page could not be updated: ${slow}.`;
  }
  show();
  clearTimeout(timer);
  timer = setTimeout(refresh, REFRESH_MS);
};

// Airflow shows the page in a frame that may not navigate its window. A link of Airflow's own document may.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[target=_top]");
  if (!link || parent === window || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const proxy = parent.document.createElement("a");
  proxy.href = link.href;
  parent.document.body.append(proxy);
  proxy.click();
  proxy.remove();
});

for (const node of document.querySelectorAll("main > [id]")) sources.set(node.id, node.innerHTML);
localize(document);
timer = setTimeout(refresh, REFRESH_MS);
// Timers almost stop in a hidden tab: refresh as soon as it is shown again.
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && Date.now() - received > REFRESH_MS) refresh();
});
setInterval(show, 1000);
