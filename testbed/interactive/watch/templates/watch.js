"use strict";

const LOOK_EVERY_MS = 2000;
const view = document.querySelector("iframe");
const says = document.querySelector("#says");
const stop = document.querySelector("#stop");

// The place of the reader in the page, and what is folded out there.

const folds = (page) => [...page.querySelectorAll("details")];
const title = (fold) => fold.querySelector("summary")?.textContent;

function place() {
  const { scrollY, innerHeight } = view.contentWindow;
  const { scrollHeight } = view.contentDocument.documentElement;
  const isText = view.contentDocument.contentType === "text/plain";
  return {
    y: scrollY,
    atEnd: isText && scrollY + innerHeight >= scrollHeight - 4, // of a log, whose end is followed
    open: new Map(folds(view.contentDocument).map((fold) => [title(fold), fold.open])),
  };
}

function goTo({ y, atEnd, open }) {
  for (const fold of folds(view.contentDocument)) fold.open = open.get(title(fold)) ?? fold.open;
  view.contentWindow.scrollTo(0, atEnd ? view.contentDocument.documentElement.scrollHeight : y);
}

let isLoading = false; // a second look must not begin a slow page's load again

async function renew() {
  const at = view.contentWindow.location;
  if (isLoading || !at.search) return;
  const { pathname, search } = at;
  const answer = await fetch(pathname, { method: "HEAD" });
  const version = answer.ok ? (answer.headers.get("ETag") ?? "").replaceAll('"', "") : "";
  if (isLoading || !version || search === `?${version}` || at.pathname !== pathname) return;
  const before = place();
  const restore = () => {
    isLoading = false;
    if (view.contentWindow.location.pathname === pathname) goTo(before); // or the reader has left it meanwhile
  };
  view.addEventListener("load", restore, { once: true });
  isLoading = true;
  at.replace(`${pathname}?${version}`);
}

async function look() {
  const answer = await fetch("state");
  if (!answer.ok) {
    says.textContent = await answer.text();
    return;
  }
  const state = await answer.json();
  says.textContent = state.says;
  stop.disabled = !state.can_stop;
  await renew();
}

async function lookOnAndOn() {
  try {
    if (!document.hidden) await look(); // nothing is made while nobody looks
  } catch {
    says.textContent = "testbed watch does not answer; it may have ended";
    stop.disabled = true;
  }
  setTimeout(lookOnAndOn, LOOK_EVERY_MS);
}

stop.addEventListener("click", async () => {
  stop.disabled = true;
  const answer = await fetch("stop", { method: "POST" });
  if (!answer.ok) alert(await answer.text());
  await look();
});

lookOnAndOn();
