// A form to try a request of the API, and what the server answered to it.
import { el, put, quoted, phrase, pieces } from "./dom.js";
import { send } from "./source.js";

const SHOWN = 100000; // characters of an answer

function kinds(schema) {
  return (schema.anyOf || [schema]).filter((one) => one.type !== "null");
}

// What is typed for a parameter: a list has an item a line, a closed choice is picked.
function field(parameter, id) {
  const [kind] = kinds(parameter.schema);
  const named = { id, name: parameter.name, required: parameter.required };
  const choices = kind.enum || (kind.type === "boolean" ? ["true", "false"] : null);
  if (choices) return el("select", named, el("option", { value: "" }, ""), choices.map((choice) => el("option", { value: choice }, choice)));
  if (kind.type === "array") return el("textarea", { ...named, rows: 2, spellcheck: "false", placeholder: phrase("tryout.one") });
  const usual = parameter.schema.default;
  return el("input", { ...named, type: "text", autocomplete: "off", spellcheck: "false", placeholder: usual === undefined || usual === "" ? kind.format || kind.type : usual });
}

function valueOf(node, parameter) {
  const [kind] = kinds(parameter.schema);
  return kind.type === "array" ? node.value.split("\n").map((line) => line.trim()).filter(Boolean) : node.value.trim();
}

function bodyParts(told, prefix) {
  if (!told.requestBody) return null;
  const examples = Object.entries(Object.values(told.requestBody.content)[0].examples || {});
  const text = el("textarea.body", { id: `${prefix}-body`, rows: 12, spellcheck: "false", required: true });
  const show = (name) => { text.value = JSON.stringify(Object.fromEntries(examples)[name].value, null, 2); };
  if (examples.length) show(examples[0][0]);
  const pick = examples.length > 1 && [
    el("label", { for: `${prefix}-example` }, "example "),
    el("select", { id: `${prefix}-example`, onchange: (event) => show(event.target.value) }, examples.map(([name]) => el("option", { value: name }, name)))];
  return { text, nodes: [pick && el("p", null, pick), el("label", { for: text.id }, phrase("tryout.body")), text] };
}

async function shown(told) {
  const text = await told.text();
  let pretty = text;
  try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not JSON: as it came */ }
  return pretty.length > SHOWN ? pretty.slice(0, SHOWN) + "\n" + phrase("tryout.more", { n: pretty.length - SHOWN }) : pretty;
}

// A form of one operation of the document, folded up; `newest` is the id to begin with where a run is asked for.
export function tryout(path, method, told, newest) {
  const prefix = `try-${method}-${path.replace(/\W+/g, "-").replace(/-$/, "")}`;
  const parameters = told.parameters || [];
  const nodes = parameters.map((parameter, i) => field(parameter, `${prefix}-${i}`));
  const body = bodyParts(told, prefix);
  const gone = method === "delete";
  parameters.forEach((parameter, i) => {
    if (parameter.name === "run_id" && newest && !gone) nodes[i].value = newest;
  });
  const button = el("button", { type: "submit" }, "Send");
  const answer = el("div.answer", { role: "status" });

  async function ask(event) {
    event.preventDefault();
    const query = {};
    let filled = path.replace(/^\/api\/v1/, "");
    parameters.forEach((parameter, i) => {
      const value = valueOf(nodes[i], parameter);
      if (parameter.in === "path") filled = filled.replace(`{${parameter.name}}`, encodeURIComponent(value));
      else query[parameter.name] = value;
    });
    button.disabled = true;
    answer.replaceChildren(el("p.dim", null, "asking …"));
    try {
      const begun = performance.now();
      const came = await send(filled, query, { method: method.toUpperCase(), body: body ? body.text.value : undefined });
      const took = Math.round(performance.now() - begun);
      const text = await shown(came);
      const address = new URL(came.url);
      answer.replaceChildren(
        el("p", null, el("b.code", null, String(came.status)), " ", pieces("tryout.sent", { text: came.statusText, ms: took, address: quoted("code", `${method.toUpperCase()} ${address.pathname}${address.search}`) })),
        text ? put(el("pre", { tabindex: "0", "aria-label": phrase("tryout.answer") }), text) : el("p.dim", null, phrase("tryout.empty")));
    } catch (error) {
      answer.replaceChildren(el("p.warn", { role: "alert" }, phrase("tryout.unreachable", { error: error.message })));
    }
    button.disabled = false;
  }

  return el("details.try", { id: prefix }, el("summary", null, phrase("tryout.try")),
    el("form", { onsubmit: ask },
      parameters.map((parameter, i) => el("p.field", null, el("label", { for: nodes[i].id }, el("code", null, parameter.name), parameter.required ? " *" : ""), nodes[i])),
      body && body.nodes,
      gone && el("p", null, el("input", { type: "checkbox", id: `${prefix}-sure`, required: true }), " ", el("label", { for: `${prefix}-sure` }, phrase("tryout.sure"))),
      el("p", null, button)),
    answer);
}
