"use strict";

// Large texts stand in the page compressed, in base 85 (analysis/html.py).

const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=>?@^_`{|}~";

const TOO_OLD =
  "The figures are not drawn, and their data cannot be downloaded: this browser is too old to unpack them (it lacks " +
  "DecompressionStream). Chrome and Edge from 80 on, Safari from 16.4 on, and Firefox from 113 on can. All else is on " +
  "this page.";

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

function unpacked(element) {
  const stream = new Blob([bytesOf(element.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

// Whether this browser can; if not, the page says so.
function canUnpack() {
  if ("DecompressionStream" in window) return true;
  const note = document.createElement("p");
  note.className = "bad";
  note.textContent = TOO_OLD;
  document.querySelector("header").append(note);
  return false;
}
