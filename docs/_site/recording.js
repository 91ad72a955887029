// Answers the requests of the review page from a recording, and lets the reader go from one moment of it to the next.
(() => {
  const moments = JSON.parse(document.getElementById("recording").textContent);
  let now = 0;
  // In a frame, this would also scroll the page around it.
  if (window.parent !== window) Element.prototype.scrollIntoView = () => {};

  window.fetch = async (path) => {
    const asked = new URL(path, "http://recording").pathname;
    const found = moments[now].answers[asked];
    const answer = found ?? { problem: "This is not part of the recording." };
    return new Response(JSON.stringify(answer), { status: found ? 200 : 404 });
  };

  const bar = document.createElement("p");
  bar.className = "recording";
  const buttons = moments.map((moment, number) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = moment.name;
    button.onclick = () => show(number);
    return button;
  });
  function show(number) {
    now = number;
    for (const [other, button] of buttons.entries()) button.setAttribute("aria-pressed", String(other === number));
  }
  bar.append("A recording: open rows, look at the reasons and the history. ", ...buttons);
  document.body.prepend(bar);
  show(0);
})();
