// One question to the server. No DOM.

const PATIENCE_MS = 8000;

/** Why there is no answer: `kind` is "missing" where it does not exist yet, else "trouble". */
export class NoAnswer extends Error {
  constructor(message, kind = "trouble") {
    super(message);
    this.kind = kind;
  }
}

/** The data at a path below the app's, with parameters. Throws NoAnswer. */
export const ask = async (path, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  const address = new URL(`../api/${path}${query && `?${query}`}`, document.baseURI);
  let answer;
  try {
    answer = await fetch(address, {
      cache: "no-store",
      credentials: "same-origin",
      headers: { Accept: "application/json" },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch (error) {
    const slow = error.name === "TimeoutError";
    throw new NoAnswer(slow ? `no answer within ${PATIENCE_MS / 1000} s` : "the server cannot be reached");
  }
  if (answer.status === 401) throw new NoAnswer("your login has ended: reload Airflow and log in again");
  if (answer.status === 403) throw new NoAnswer("you have no right to see this page any more");
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new NoAnswer(body?.detail ?? `the server says ${answer.status}`, body?.kind);
  if (body === null) throw new NoAnswer("the server's answer is no JSON");
  return body;
};
