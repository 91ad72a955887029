// Requests to the server. A verdict counts once it has answered: it is on disk then.
const session = window.sessionStorage;
if (!session.getItem("window")) {
  const random = crypto.getRandomValues(new Uint32Array(2));
  session.setItem("window", Array.from(random, (part) => part.toString(36)).join(""));
}
export const windowId = session.getItem("window");

export class Problem extends Error {
  constructor(message, status, current) {
    super(message);
    this.status = status;
    this.current = current;
  }
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options });
  } catch {
    throw new Problem("The server does not answer. Everything that was saved is safe.", 0);
  }
  const text = await answer.text();
  let found = {};
  try {
    found = JSON.parse(text);
  } catch {
    found = { problem: text.trim() };
  }
  if (!answer.ok) throw new Problem(found.problem || `Error ${answer.status}`, answer.status, found.current);
  return found;
}

export const get = (path) => ask(path);
export const post = (path, body = {}) =>
  ask(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ window: windowId, who: localStorage.getItem("dplan-who") || "", ...body }),
  });
