// One request to the server. No DOM.

const TIMEOUT_MS = 8000;

/** `kind`: "missing" if the resource does not exist yet, else "error". */
export class RequestFailed extends Error {
  constructor(message, kind = "error") {
    super(message);
    this.kind = kind;
  }
}

/** The data at a path below the app's, with parameters. Throws RequestFailed. */
export const fetchJson = async (path, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  const address = new URL(`../api/${path}${query && `?${query}`}`, document.baseURI);
  let answer;
  try {
    answer = await fetch(address, {
      cache: "no-store",
      credentials: "same-origin",
      headers: { Accept: "application/json" },
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
  } catch (error) {
    const slow = error.name === "TimeoutError";
    throw new RequestFailed(slow ? `no answer within ${TIMEOUT_MS / 1000} s` : "the server cannot be reached");
  }
  if (answer.status === 401) throw new RequestFailed("your login has ended: reload Airflow and log in again");
  if (answer.status === 403) throw new RequestFailed("you are not allowed to see this page");
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new RequestFailed(body?.detail ?? `the server says ${answer.status}`, body?.kind);
  if (body === null) throw new RequestFailed("the server's answer is no JSON");
  return body;
};
