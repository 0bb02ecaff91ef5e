// The table of the ten busiest users. Text goes in as text: nothing here makes HTML of a string.

import { count, visible } from "./format.js";

const cell = (row, className, ...content) => {
  const made = row.insertCell();
  made.className = className;
  made.append(...content);
  return made;
};

/** Put the editors into the table body. */
export const fillTable = (body, editors) => {
  const rows = editors.map((editor, index) => {
    const row = document.createElement("tr");
    cell(row, "number muted", String(index + 1));
    // Isolated: a name with marks that turn the direction of writing turns its own only.
    const name = document.createElement("bdi");
    name.textContent = visible(editor.user);
    cell(row, "user", name).title = editor.user;
    const kind = document.createElement("span");
    kind.className = `kind ${editor.bot ? "bots" : "people"}`;
    kind.textContent = editor.bot ? "bot" : "person";
    cell(row, "", kind);
    cell(row, "number", count(editor.edits));
    return row;
  });
  body.replaceChildren(...rows);
};
