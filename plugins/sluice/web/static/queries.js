// The page of a stream's queries: for each its state, charts of the last hours, and a table.

import { fetchJson } from "./fetch.js";
import { drawCharts } from "./query_charts.js";
import { fillQueryTable } from "./query_table.js";
import { poll } from "./polling.js";
import { plotly } from "./plotly.js";
import { age } from "./format.js";

const at = (id) => document.getElementById(id);
const { stream } = document.body.dataset;
// Query -> its card, which stays while the query is there: focus and scrolling stay with it.
const cards = new Map();

const SEVERITIES = { running: "ok", idle: "ok", working: "ok", silent: "error", ended: "suspended" };

const lifeText = ({ life: { state, at: heard, detail }, newest }, now) => {
  const batch = newest ? `its newest batch ended ${age(now - newest.ended)} ago` : "no batch has ended yet";
  const since = heard === null ? "" : age(now - heard);
  if (state === "ended") return detail ? `It failed ${since} ago: ${detail}` : `It was stopped ${since} ago.`;
  if (state === "silent") {
    return `No activity for ${since || "days"}: its process is down, stuck or cannot write to Kafka; ${batch}.`;
  }
  if (state === "idle") return `Nothing new to read; ${batch}. Last activity ${since} ago.`;
  if (state === "working") return `A batch is running; ${batch}. Last activity ${since} ago.`;
  return newest ? `Its newest batch ended ${age(now - newest.ended)} ago.` : `It started ${since} ago; no batch has ended yet.`;
};

const makeCard = (name) => {
  const card = at("query").content.firstElementChild.cloneNode(true);
  const title = card.querySelector("h2");
  title.id = `query-${cards.size}`;
  title.textContent = name;
  card.setAttribute("aria-labelledby", title.id);
  card.querySelector("caption").textContent = `The newest batch of ${name}`;
  card.querySelector(".scroll").setAttribute("aria-label", `Metrics of ${name}`);
  return card;
};

const show = ({ queries, complete, malformed }, now) => {
  for (const query of queries) {
    if (!cards.has(query.query)) cards.set(query.query, makeCard(query.query));
    const card = cards.get(query.query);
    card.querySelector(".both").hidden = query.newest === null;
    fillQueryTable(card.querySelector("tbody"), query, now);
  }
  const expected = queries.map(({ query }) => cards.get(query));
  const list = at("queries");
  const same = expected.length === list.children.length && expected.every((card, n) => card === list.children[n]);
  if (!same) list.replaceChildren(...expected);
  at("nothing").hidden = queries.length > 0 || !complete;
  at("malformed").hidden = !malformed;
  at("malformed").textContent = malformed;
  at("incomplete").hidden = complete;
};

const tick = ({ queries }, now, error) => {
  for (const query of queries) {
    const card = cards.get(query.query);
    const pill = card.querySelector(".pill");
    const failed = query.life.state === "ended" && query.life.detail !== "";
    pill.textContent = `${failed ? "failed" : query.life.state}${error ? ", as last known" : ""}`;
    pill.dataset.severity = failed ? "error" : SEVERITIES[query.life.state];
    pill.dataset.current = String(!error);
    card.querySelector(".life").textContent = lifeText(query, now);
  }
};

const draw = async (data, now) => {
  try {
    await plotly;
  } catch {
    at("no-chart").hidden = false;
    return;
  }
  for (const query of data.queries) {
    // A newer answer came while this one was drawn: that one is drawn.
    if (page.data() !== data) return;
    await drawCharts(cards.get(query.query).querySelector(".charts"), query, data, now);
  }
};

const page = poll({
  request: () => fetchJson(`queries/${encodeURIComponent(stream)}`),
  show,
  tick,
  draw,
  missing: "No progress yet",
});
page.refresh();
