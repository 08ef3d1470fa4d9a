import { el, page, topBar, quoted, sentence, phrase, pieces } from "./dom.js";
import { api } from "./source.js";
import { tryout } from "./tryout.js";

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.anyOf) return schema.anyOf.map(typeOf).reduce((a, b) => phrase("docspage.or", { a, b }));
  if (schema.enum) return schema.enum.join(" | ");
  if (schema.type === "array") return phrase("docspage.list", { items: typeOf(schema.items) });
  return schema.format || schema.type || "any";
}

function fields(name, schema) {
  const needed = new Set(schema.required || []);
  return el("details", { id: `schema-${name}` }, el("summary", null, el("code", null, name)), schema.description && sentence("p.dim", schema.description),
    el("dl.facts", null, Object.entries(schema.properties || {}).map(([field, told]) => [
      el("dt", null, el("code", null, field), needed.has(field) ? " *" : ""), el("dd", null, typeOf(told), told.description && el("span.dim", null, " " + told.description))])));
}

function operation(path, method, told, newest) {
  const body = told.requestBody && typeOf(Object.values(told.requestBody.content)[0].schema);
  const ok = Object.entries(told.responses).find(([code]) => code.startsWith("2"));
  const answer = ok && ok[1].content && typeOf(Object.values(ok[1].content)[0].schema);
  return el("section.panel.operation", null,
    el("h3", null, el("span.method", null, method.toUpperCase()), el("code", null, path)),
    sentence("p", told.description || told.summary || ""),
    told.parameters && el("dl.facts", null, told.parameters.map((p) => [el("dt", null, el("code", null, p.name), p.required ? " *" : ""), el("dd", null, typeOf(p.schema), el("span.dim", null, " ", phrase("docspage.in", { place: p.in })))])),
    body && el("p", null, "body: ", el("code", null, body)),
    el("p.dim", null, `${ok ? ok[0] : ""} `, answer && el("code", null, answer)),
    tryout(path, method, told, newest));
}

// The OpenAPI document, drawn by this page itself, with a form to try each request.
export async function docsPage(root) {
  document.title = phrase("docspage.title");
  const [spec, listed] = await Promise.all([api("/openapi.json"), api("/runs", { limit: 1 })]);
  const newest = listed.runs.length ? listed.runs[0].id : null;
  const parts = Object.entries(spec.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, told]) => [told.tags ? told.tags[0] : "other", operation(path, method, told, newest)]));
  const groups = [...new Set(parts.map(([group]) => group))];
  root.replaceChildren(topBar(true), el("main", null,
    el("header.head", null, el("h1", null, phrase("docspage.rest")), el("p.sub", null, pieces("docspage.errors", { version: spec.info.version, link: el("a", { href: "/api/v1/openapi.json" }, "openapi.json"), form: el("code", null, '{"error": {"type", "message"}}') }))),
    groups.map((group) => el("section", null, el("h2", null, group), el("div.columns", null, parts.filter(([g]) => g === group).map(([, node]) => node)))),
    el("section", null, el("h2", null, "Records"), Object.entries(spec.components.schemas).map(([name, schema]) => fields(name, schema)))));
  document.documentElement.dataset.ready = "true";
}

page("docs", docsPage);
