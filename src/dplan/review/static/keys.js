// Which key was pressed: the letter on the key or, on a layout without Latin letters, the one at its place.
export function keyOf(event) {
  const key = event.key.toLowerCase();
  if (key.length > 1 || key < "\u0080") return key;
  const place = /^(?:Key([A-Z])|Digit([0-9]))$/.exec(event.code);
  return place ? (place[1] || place[2]).toLowerCase() : key;
}

// Some people press letters without meaning to, such as those who dictate: letters can be switched off (WCAG 2.1.4).
export const lettersAreOn = () => localStorage.getItem("dplan-letters") !== "off";
export const switchLetters = (on) => localStorage.setItem("dplan-letters", on ? "on" : "off");
export const isCharacter = (key) => key.length === 1 && key !== " ";

export const isTyping = (event) =>
  // A field of a dialog that has just been closed keeps the focus until the browser draws the page again.
  event.target.matches("input:not([type=range], [type=checkbox]), textarea, select") && !event.target.closest("dialog");
