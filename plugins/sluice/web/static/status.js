// The stream's status: each component's health, and when supervision checked it last.

import { age, moment } from "./format.js";

const element = (tag, className, text) => {
  const created = document.createElement(tag);
  created.className = className;
  created.textContent = text;
  return created;
};

const since = (component, current, now) => {
  if (component.since === null) return "";
  const at = `since ${moment(component.since, now)}`;
  return current ? `${at} (${age(now - component.since)})` : at;
};

const supervisionText = ({ dag, paused, at, passed, current }, now) => {
  if (paused === null) return `No supervision DAG: Airflow knows no DAG ${dag}.`;
  const last = at === null ? "No check yet." : `Last check ${age(now - at)} ago.`;
  if (paused) return `Supervision (${dag}) is paused. ${last}`;
  if (at === null) return `Supervision (${dag}): no check yet.`;
  if (!current) return `Supervision (${dag}): last check ${age(now - at)} ago; it is late.`;
  return `Supervision (${dag}): last check ${age(now - at)} ago${passed ? "." : "; its run failed."}`;
};

/** The stream's health in one pill: that of the worst component. */
const showWorst = (pill, worst, current, suffix) => {
  pill.textContent = `${worst.component === "consumer" ? "stream" : worst.component}: ${worst.health}${suffix}`;
  pill.title = worst.message;
  pill.dataset.severity = worst.severity;
  pill.dataset.current = String(current);
  pill.hidden = false;
};

/** Fill the pill, the list of components and the line about supervision.
 *
 * `now`: the server's time. `fresh`: false if the server did not answer the newest request.
 */
export const showStatus = (pill, list, line, status, now, fresh) => {
  const current = fresh && status.current;
  const suffix = fresh ? ", outdated" : ", as last known";
  const worst = status.components.find(({ component }) => component === status.worst);
  showWorst(pill, worst, current, current ? "" : suffix);
  list.replaceChildren(
    ...status.components.map((component) => {
      const row = element("li", "", "");
      const badge = element("span", "pill", component.health);
      badge.dataset.severity = component.severity;
      badge.dataset.current = String(current);
      const text = element("div", "", "");
      text.append(element("p", "message", component.message), element("p", "muted", since(component, current, now)));
      row.append(element("span", "component", component.component), badge, text);
      return row;
    }),
  );
  line.textContent = supervisionText(status.supervision, now);
  line.dataset.current = String(fresh && status.supervision.current && status.supervision.passed);
};
