// The table of the ten top groups. Text goes in as text: nothing here makes HTML of a string.

import { count, visible } from "./format.js";
import { kinds } from "./words.js";

const cell = (row, className, ...content) => {
  const made = row.insertCell();
  made.className = className;
  made.append(...content);
  return made;
};

/** Put the groups into the table body. */
export const fillTable = (body, groups) => {
  const rows = groups.map((group, index) => {
    const row = document.createElement("tr");
    cell(row, "number muted", String(index + 1));
    // Isolated: a name with marks that turn the direction of writing turns its own only.
    const name = document.createElement("bdi");
    name.textContent = visible(group.name);
    cell(row, "group", name).title = group.name;
    if (kinds.length) {
      const kind = document.createElement("span");
      kind.className = `kind kind-${Number(group.kind)}`;
      kind.textContent = kinds[Number(group.kind)].one;
      cell(row, "", kind);
    }
    cell(row, "number", count(group.value));
    return row;
  });
  body.replaceChildren(...rows);
};
