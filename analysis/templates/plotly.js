"use strict";

// Plotly stands in the page compressed, in base 85 (analysis/figures.py).

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=>?@^_`{|}~";

const TOO_OLD =
  "The figures are not drawn: this browser is too old to unpack them (it lacks DecompressionStream). Chrome and Edge " +
  "from 80 on, Safari from 16.4 on, and Firefox from 113 on draw them. All else is on this page.";

function bytesOf(text) {
  const value = new Uint8Array(128);
  [...LETTERS].forEach((letter, i) => (value[letter.charCodeAt(0)] = i));
  const bytes = new Uint8Array(Math.floor((text.length * 4) / 5));
  for (let i = 0, filled = 0; i < text.length; i += 5) {
    let word = 0;
    for (let k = i; k < i + 5; k++) word = word * 85 + (k < text.length ? value[text.charCodeAt(k)] : 84);
    for (let shift = 24; shift >= 0 && filled < bytes.length; shift -= 8) bytes[filled++] = word >>> shift;
  }
  return bytes;
}

// True once window.Plotly is there; false if the browser cannot unpack it, and then the page says so.
async function plotlyIsThere() {
  if (!("DecompressionStream" in window)) {
    const note = document.createElement("p");
    note.className = "bad";
    note.textContent = TOO_OLD;
    document.querySelector("header").append(note);
    return false;
  }
  const bytes = bytesOf(document.getElementById("plotly").textContent);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
  return true;
}
