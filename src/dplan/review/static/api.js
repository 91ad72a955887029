// Requests to the server. A verdict counts once it has answered: it is on disk then.
const SLOWEST = 30_000; // milliseconds; then the request is given up, and may be sent again

// Kept with the browser, so that a verdict can be undone in another tab, or tomorrow.
if (!localStorage.getItem("dplan-window")) {
  const random = crypto.getRandomValues(new Uint32Array(2));
  localStorage.setItem("dplan-window", Array.from(random, (part) => part.toString(36)).join(""));
}
export const windowId = localStorage.getItem("dplan-window");

export class Problem extends Error {
  constructor(message, status, current) {
    super(message);
    this.status = status; // 0 if there was no answer
    this.current = current;
  }
}

async function ask(path, options) {
  let answer, text;
  try {
    answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(SLOWEST), ...options });
    text = await answer.text();
  } catch {
    throw new Problem("The server does not answer. Everything that was saved is safe.", 0);
  }
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
export const who = () => localStorage.getItem("dplan-who") || "";
export const post = (path, body = {}, slowest = SLOWEST) =>
  ask(path, {
    method: "POST",
    signal: AbortSignal.timeout(slowest),
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ window: windowId, who: who(), ...body }),
  });
