// node diagnose.mjs PICTURE [SKIN_TONE]: asks the diagnosis service at DERMFED_URL, with DERMFED_API_KEY if it is set.
import { readFile } from "node:fs/promises";

const [path, tone] = process.argv.slice(2);
const types = { ffd8: "image/jpeg", 8950: "image/png", 5249: "image/webp" }; // told by the first bytes
const picture = await readFile(path);
const url = new URL("v1/diagnoses", (process.env.DERMFED_URL ?? "http://127.0.0.1:3000").replace(/\/?$/, "/"));
if (tone) url.searchParams.set("skin_tone", tone);
const headers = { "Content-Type": types[picture.subarray(0, 2).toString("hex")] ?? "application/octet-stream" };
if (process.env.DERMFED_API_KEY) headers.Authorization = `Bearer ${process.env.DERMFED_API_KEY}`;

const ask = () => fetch(url, { method: "POST", body: picture, headers, redirect: "error", signal: AbortSignal.timeout(30_000) });
let response = await ask();
if (response.status === 429 || response.status === 503) {
  const seconds = Math.min(Number(response.headers.get("Retry-After")) || 1, 60); // asked for by the service
  await new Promise((resume) => setTimeout(resume, seconds * 1000));
  response = await ask();
}
const said = await response.json();
if (!response.ok) throw new Error(`${said.status} ${said.title}: ${said.detail} (request ${said.request_id})`);
console.log(`${said.decision}: ${said.prediction_set.codes.join(", ")} not ruled out`, ...said.warnings, said.disclaimer);
