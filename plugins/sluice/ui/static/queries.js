// The page of a stream's queries: for each a line on how it is, pictures of the last hours, and a table.

import { ask } from "./ask.js";
import { drawCharts } from "./charts.js";
import { fillFigures } from "./figures.js";
import { live } from "./live.js";
import { plotly } from "./plot.js";
import { age } from "./words.js";

const at = (id) => document.getElementById(id);
const { stream } = document.body.dataset;
// Query -> its card, which stays while the query is there: focus and scrolling stay with it.
const cards = new Map();

const TONES = { running: "well", idle: "well", working: "well", silent: "bad", ended: "held" };

const lifeText = ({ life: { state, at: heard, detail }, newest }, now) => {
  const batch = newest ? `its newest batch ended ${age(now - newest.ended)} ago` : "it has not ended a batch yet";
  const sign = heard === null ? "" : age(now - heard);
  if (state === "ended") return detail ? `It failed ${sign} ago: ${detail}` : `It was stopped ${sign} ago.`;
  if (state === "silent") {
    return `No sign for ${sign || "days"}: its process is down or stuck, or cannot write to Kafka; ${batch}.`;
  }
  if (state === "idle") return `Nothing new to read; ${batch}. Last sign of life ${sign} ago.`;
  if (state === "working") return `A batch takes long; ${batch}. Last sign of life ${sign} ago.`;
  return newest ? `Its newest batch ended ${age(now - newest.ended)} ago.` : `It started ${sign} ago, and has not ended a batch yet.`;
};

const makeCard = (name) => {
  const card = at("query").content.firstElementChild.cloneNode(true);
  const title = card.querySelector("h2");
  title.id = `query-${cards.size}`;
  title.textContent = name;
  card.setAttribute("aria-labelledby", title.id);
  card.querySelector("caption").textContent = `The newest batch of ${name}`;
  card.querySelector(".scroll").setAttribute("aria-label", `Figures of ${name}`);
  return card;
};

const show = ({ queries, complete, malformed }, now) => {
  for (const query of queries) {
    if (!cards.has(query.query)) cards.set(query.query, makeCard(query.query));
    const card = cards.get(query.query);
    card.querySelector(".both").hidden = query.newest === null;
    fillFigures(card.querySelector("tbody"), query, now);
  }
  const wanted = queries.map(({ query }) => cards.get(query));
  const list = at("queries");
  const same = wanted.length === list.children.length && wanted.every((card, n) => card === list.children[n]);
  if (!same) list.replaceChildren(...wanted);
  at("nothing").hidden = queries.length > 0 || !complete;
  at("malformed").hidden = !malformed;
  at("malformed").textContent = malformed;
  at("incomplete").hidden = complete;
};

const tick = ({ queries }, now, trouble) => {
  for (const query of queries) {
    const card = cards.get(query.query);
    const pill = card.querySelector(".pill");
    const failed = query.life.state === "ended" && query.life.detail !== "";
    pill.textContent = `${failed ? "failed" : query.life.state}${trouble ? ", as last known" : ""}`;
    pill.dataset.tone = failed ? "bad" : TONES[query.life.state];
    pill.dataset.current = String(!trouble);
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

const page = live({
  question: () => ask(`queries/${encodeURIComponent(stream)}`),
  show,
  tick,
  draw,
  missing: "There is no progress yet",
});
page.refresh();
