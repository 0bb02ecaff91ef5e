// Numbers, times and names as a person reads them. No DOM.

const GRAPHEMES = new Intl.Segmenter(undefined, { granularity: "grapheme" });
const COUNT = new Intl.NumberFormat("en");
const RATE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// Airflow keeps the time zone that its user chose; else it is the browser's.
const chosenZone = () => {
  try {
    const zone = JSON.parse(localStorage.getItem("timezone"));
    new Intl.DateTimeFormat("en", { timeZone: zone });
    return zone;
  } catch {
    return undefined;
  }
};
const timeZone = chosenZone() ?? undefined;
export const zone = new Intl.DateTimeFormat("en", { timeZone }).resolvedOptions().timeZone;

const TIME = new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit" });
const SECONDS = new Intl.DateTimeFormat("en-GB", { timeZone, hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { timeZone, day: "numeric", month: "short" });

export const count = (number) => COUNT.format(number);
export const rate = (number) => RATE.format(number);

const clockOf = (format, seconds, now) => {
  const at = new Date(seconds * 1000);
  const day = DAY.format(at);
  return day === DAY.format(new Date(now * 1000)) ? format.format(at) : `${day}, ${format.format(at)}`;
};

/** `15:50`, with the day where it is not today's; seconds since 1970. */
export const clock = (seconds, now) => clockOf(TIME, seconds, now);

/** `15:50:03`, likewise. */
export const moment = (seconds, now) => clockOf(SECONDS, seconds, now);

/** `15:50–16:00`, likewise. */
export const span = (start, end, now) => `${clock(start, now)}–${TIME.format(new Date(end * 1000))}`;

/** How long it is, in at most two units: `42 s`, `3 min 5 s`, `2 h 10 min`, `3 d 4 h`. */
export const age = (seconds) => {
  const whole = Math.max(0, Math.round(seconds));
  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  if (first < 0) return "0 s";
  const [name, size] = units[first];
  const rest = units[first + 1];
  const more = rest ? Math.floor((whole % size) / rest[1]) : 0;
  return `${Math.floor(whole / size)} ${name}${more ? ` ${more} ${rest[0]}` : ""}`;
};

/** How long it is, where parts of a second count: `12 ms`, `3.4 s`, `2 min 5 s`. */
export const duration = (seconds) => {
  if (seconds < 1) return `${count(Math.round(seconds * 1000))} ms`;
  return seconds < 60 ? `${rate(seconds)} s` : age(seconds);
};

/** `12 B`, `3.4 kB`, `56.7 MB`. */
export const bytes = (number) => {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = number < 1 ? 0 : Math.min(Math.floor(Math.log10(number) / 3), units.length - 1);
  return `${rate(number / 1000 ** power)} ${units[power]}`;
};

/** At most so many characters as a person counts them, with an ellipsis for the rest. */
export const cut = (text, most) => {
  let kept = "";
  let number = 0;
  for (const { segment } of GRAPHEMES.segment(text)) {
    if (number === most) return `${kept}…`;
    kept += segment;
    number += 1;
  }
  return text;
};

/** A group's name as it can be seen: one that shows nothing, or that the source hides, is told so. */
export const visible = (name) => {
  if (name === "") return "(hidden)";
  return /[^\s\p{Cc}\p{Cf}]/u.test(name) ? name : "(a name that shows nothing)";
};

/** For Plotly, whose labels are a kind of HTML: what it shows is the text itself. */
export const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
