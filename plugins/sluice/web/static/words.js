// What the query's declaration calls things: what is counted, the groups, and their two kinds, if they have kinds.

export const { counted, names, kinds } = JSON.parse(document.body.dataset.words);

/** Places in a window's `values` that a choice of the page ("all", or a kind) shows. */
export const shownKinds = (whose) => {
  const all = kinds.length ? [0, 1] : [0];
  return whose === "all" ? all : all.filter((kind) => kinds[kind].many === whose);
};
