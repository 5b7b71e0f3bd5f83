// Lists the sections that have all of the words; a word in a heading or a title counts more than one in the text.
"use strict";

const RESULTS = 40;
const AROUND = 90; // characters of the text before and behind a word

function rank(query, index) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word);
  if (!words.length) return [];
  const scored = [];
  for (const entry of index) {
    const [title, heading, , text] = entry.map((part) => part.toLowerCase());
    let score = 0;
    for (const word of words) {
      const found = 8 * (heading === word) + 8 * heading.includes(word) + 4 * title.includes(word) + text.includes(word);
      score = found && score >= 0 ? score + found : -1;
    }
    if (score > 0) scored.push([score, entry]);
  }
  return scored.sort((a, b) => b[0] - a[0]).map((pair) => pair[1]);
}

function excerpt(text, query) {
  const word = query.toLowerCase().split(/\s+/).find((w) => w && text.toLowerCase().includes(w));
  const at = word ? text.toLowerCase().indexOf(word) : 0;
  const from = Math.max(0, at - AROUND), to = at + AROUND;
  return (from > 0 ? "..." : "") + text.slice(from, to) + (to < text.length ? "..." : "");
}

function show(query) {
  const found = rank(query, INDEX);
  document.getElementById("q").value = query;
  document.getElementById("count").textContent = query ? found.length + " sections" : "";
  for (const [title, heading, where, text] of found.slice(0, RESULTS)) {
    const item = document.createElement("li"), link = document.createElement("a"), line = document.createElement("p");
    link.href = where;
    link.textContent = heading ? title + ": " + heading : title;
    line.textContent = excerpt(text, query); // as text: what was searched for is never HTML
    item.append(link, line);
    document.getElementById("found").append(item);
  }
}

if (typeof document !== "undefined") show(new URLSearchParams(location.search).get("q") || "");
