// node diagnose.mjs PICTURE [SKIN_TONE [NAME=VALUE ...]]: asks the diagnosis service at DERMFED_URL, with DERMFED_API_KEY if set.
// Of a case: image_kind=close-up dermoscopic=derm.jpg age=70. What is known of a patient goes into the form, never into the address.
import { readFile } from "node:fs/promises";

const [path, tone, ...more] = process.argv.slice(2);
const url = new URL("v1/diagnoses", (process.env.DERMFED_URL ?? "http://127.0.0.1:3000").replace(/\/?$/, "/"));
const kind = (bytes) => (bytes.toString("latin1", 128, 132) === "DICM" ? "application/dicom" : ""); // other formats the service tells
const file = (name) => readFile(name).then((bytes) => new Blob([bytes], { type: kind(bytes) }));
const body = new FormData();
body.append("image", await file(path));
if (tone) body.append("skin_tone", tone);
for (const [, name, value] of more.map((part) => part.match(/^(\w+)=(.*)$/)))
  body.append(name, ["close_up", "dermoscopic", "overview"].includes(name) ? await file(value) : value);
const headers = process.env.DERMFED_API_KEY ? { Authorization: `Bearer ${process.env.DERMFED_API_KEY}` } : {};

const ask = () => fetch(url, { method: "POST", body, headers, redirect: "error", signal: AbortSignal.timeout(30_000) });
let response = await ask();
if (response.status === 429 || response.status === 503) {
  const seconds = Math.min(Number(response.headers.get("Retry-After")) || 1, 60); // asked for by the service
  await new Promise((resume) => setTimeout(resume, seconds * 1000));
  response = await ask();
}
const said = await response.json();
if (!response.ok) throw new Error(`${said.status} ${said.title}: ${said.detail} (request ${said.request_id})`);
const triage = said.triage ? [`${said.triage};`] : [];
console.log(...triage, `${said.decision}: ${said.prediction_set.codes.join(", ")} possible`, ...said.warnings, said.disclaimer);
