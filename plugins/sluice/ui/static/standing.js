// How the stream stands: each part's verdict, and how far supervision stands behind it.

import { age, moment } from "./words.js";

const element = (tag, className, text) => {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
};

const since = (part, current, now) => {
  if (part.since === null) return "";
  const at = `since ${moment(part.since, now)}`;
  return current ? `${at} (${age(now - part.since)})` : at;
};

const supervisionText = ({ dag, paused, at, passed, current }, now) => {
  if (paused === null) return `Nobody looks at this stream: Airflow knows no DAG ${dag}.`;
  const last = at === null ? "It has not looked yet." : `It looked last ${age(now - at)} ago.`;
  if (paused) return `Supervision (${dag}) is paused: what it said is what it knew then. ${last}`;
  if (at === null) return `Supervision (${dag}) has not looked yet.`;
  if (!current) return `Supervision (${dag}) has not finished a run for ${age(now - at)}: its verdicts may be over.`;
  return `Supervision (${dag}) looked ${age(now - at)} ago${passed ? "." : ", and its run failed."}`;
};

const ORDER = ["bad", "mending", "none", "held", "well"];

/** The stream's verdict in one pill: the consumer's, or that of a part which is worse off. */
const showWorst = (pill, parts, current, doubt) => {
  const worst = ORDER.findIndex((tone) => parts.some((part) => part.tone === tone));
  const shown = parts.find((part) => part.tone === ORDER[worst]);
  const word = shown.verdict ?? "no verdict yet";
  pill.textContent = `${shown.part === "consumer" ? "stream" : shown.part}: ${word}${doubt}`;
  pill.title = shown.sentence;
  pill.dataset.tone = shown.tone;
  pill.dataset.current = String(current);
  pill.hidden = false;
};

/** Fill the pill, the list of parts and the line about supervision.
 *
 * `now`: the server's time. `fresh`: whether this is what the server says now, or what it said before it fell silent.
 */
export const showStanding = (pill, list, line, standing, now, fresh) => {
  const current = fresh && standing.supervision.current;
  const doubt = fresh ? ", not watched" : ", as last known";
  showWorst(pill, standing.parts, current, current ? "" : doubt);
  list.replaceChildren(
    ...standing.parts.map((part) => {
      const row = element("li", "", "");
      const badge = element("span", "pill", part.verdict ?? "no verdict yet");
      badge.dataset.tone = part.tone;
      badge.dataset.current = String(current);
      const words = element("div", "", "");
      words.append(element("p", "sentence", part.sentence), element("p", "muted", since(part, current, now)));
      row.append(element("span", "part", part.part), badge, words);
      return row;
    }),
  );
  line.textContent = supervisionText(standing.supervision, now);
  line.dataset.current = String(current && standing.supervision.passed);
};
