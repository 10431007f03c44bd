// Hostile strings: markup, script URLs, breakouts from scripts, attributes and style sheets, commands for spreadsheets and
// terminals, and text with hidden direction. Where one is executed, it sets `executed` or sends a request.

const SCRIPT = "globalThis.executed=1;alert(1)";

const MARKUP = [
  `<script>${SCRIPT}</script>`,
  `</script><script>${SCRIPT}</script>`,
  `<img src=x onerror="${SCRIPT}">`,
  `<svg onload="${SCRIPT}">`,
  `<svg><script>${SCRIPT}</script></svg>`,
  `<svg><animate onbegin="${SCRIPT}" attributeName=x dur=1s>`,
  `<body onload="${SCRIPT}">`,
  `<iframe srcdoc="<script>${SCRIPT}</script>"></iframe>`,
  `<iframe src="javascript:${SCRIPT}"></iframe>`,
  `<object data="javascript:${SCRIPT}"></object>`,
  `<embed src="javascript:${SCRIPT}">`,
  `<a href="javascript:${SCRIPT}">x</a>`,
  `<math><mtext><style><img src=x onerror="${SCRIPT}"></style></mtext></math>`,
  `<details open ontoggle="${SCRIPT}">`,
  `<video><source onerror="${SCRIPT}"></video>`,
  `<input autofocus onfocus="${SCRIPT}">`,
  `<select autofocus onfocus="${SCRIPT}">`,
  `<textarea autofocus onfocus="${SCRIPT}"></textarea>`,
  `<marquee onstart="${SCRIPT}">`,
  `<form action="javascript:${SCRIPT}"><button autofocus>x</button></form>`,
  `<meta http-equiv="refresh" content="0;url=javascript:${SCRIPT}">`,
  `<link rel=stylesheet href="http://attacker.invalid/x.css">`,
  `<style>@import "http://attacker.invalid/x.css";</style>`,
  `<base href="http://attacker.invalid/">`,
  `<template><script>${SCRIPT}</script></template>`,
  `<img src="http://attacker.invalid/pixel">`,
  `<div style="background:url(http://attacker.invalid/x)">`,
  `<noscript><p title="</noscript><img src=x onerror='${SCRIPT}'>">`,
  `<!--><img src=x onerror="${SCRIPT}">-->`,
  `<![CDATA[<script>${SCRIPT}</script>]]>`,
];

const ADDRESSES = [
  "javascript:",
  "JaVaScRiPt:",
  "java\tscript:",
  "data:text/html,<script>",
  "vbscript:",
  "//attacker.invalid/",
].map((each) => each + SCRIPT);

const BREAKOUTS = [
  `"onmouseover="${SCRIPT}`,
  `' onfocus='${SCRIPT}' autofocus='`,
  `"><script>${SCRIPT}</script>`,
  `'><script>${SCRIPT}</script>`,
  `\`-${SCRIPT}-\``,
  `\${${SCRIPT}}`,
  `{{constructor.constructor('${SCRIPT}')()}}`,
  `'-${SCRIPT}-'`,
  `\\";${SCRIPT};//`,
  `*/${SCRIPT}/*`,
  `</title><script>${SCRIPT}</script>`,
  `</textarea><script>${SCRIPT}</script>`,
  `</style><script>${SCRIPT}</script>`,
  `]]><script>${SCRIPT}</script>`,
  `&lt;script&gt;${SCRIPT}&lt;/script&gt;`,
  `&#60;script&#62;${SCRIPT}&#60;/script&#62;`,
  `%3Cscript%3E${SCRIPT}%3C/script%3E`,
  `\\u003cscript\\u003e${SCRIPT}\\u003c/script\\u003e`,
  `__proto__`,
  `constructor`,
];

const OTHERS = [
  `=HYPERLINK("http://attacker.invalid","x")`,
  `@SUM(1+1)*cmd|' /C calc'!A0`,
  `\u001b[31mred\u001b[0m\u001b]0;title\u0007`,
  `\u202egnp.exe\u202c`,
  `\u2066hidden\u2069`,
  `\ufeffbom`,
  `\u2028line\u2029paragraph`,
  `a`.repeat(500),
  `${"\u0301".repeat(50)}zalgo`,
  `𝒳😀‍👩‍👩‍👧`,
];

const wrapped = (value) => [value, `x ${value} y`, value.toUpperCase(), `"${value}"`];

/** Returns at least two hundred different strings, each short enough for a description. */
export function hostileStrings() {
  const all = [...MARKUP, ...ADDRESSES, ...BREAKOUTS].flatMap(wrapped);
  return [...new Set([...all, ...OTHERS])];
}
