// Signs what is done from the console. The private key is read here, held as a key that cannot be taken out again, and sent nowhere.
const KIND = "application/vnd.dermfed.action+json";
const CURVES = [["P-256", "SHA-256"], ["P-384", "SHA-384"], ["P-521", "SHA-512"]];
const CONVERT = "openssl pkcs8 -topk8 -nocrypt -in YOUR.key -out plain.key";
const MAKES = { approve: ["approved"], promote: ["promoted"], "roll-back": ["rolled-back"], stop: ["stopped"], withdraw: ["withdrawn", "rolled-back", "stopped"] };
const DID = { approved: "approve", promoted: "promote", "rolled-back": "roll back", stopped: "stop", withdrawn: "withdraw" };
const WAIT = "The registry is asked …"; // it may run models before it lets them through
const NOTHING = "Nothing was done.";
const text = new TextEncoder();
let signer = null; // { key, hash, fingerprint }

const bytesOf = (base64) => Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
const base64Of = (bytes) => btoa(Array.from(new Uint8Array(bytes), (one) => String.fromCharCode(one)).join(""));
const hexOf = (bytes) => Array.from(new Uint8Array(bytes), (one) => one.toString(16).padStart(2, "0")).join("");

// What cannot be seen, or turns letters round, is spelt out: a reason is somebody else's text.
const shown = (said) => String(said).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (one) => `\\u{${one.codePointAt(0).toString(16)}}`);

async function readKey(file) {
  if (!globalThis.crypto?.subtle) throw new Error("This browser signs only over https, or on localhost. Open this page by such an address.");
  const pem = await file.text();
  if (/BEGIN ENCRYPTED PRIVATE KEY|Proc-Type: 4,ENCRYPTED/.test(pem))
    throw new Error(`This key has a password, and browsers cannot read such a file. Make a copy without one, choose that, and remove it afterwards: ${CONVERT}`);
  if (/BEGIN EC PRIVATE KEY/.test(pem)) throw new Error(`This key is in an older form that browsers cannot read. Make a copy in PKCS 8: ${CONVERT}`);
  const body = /-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----/.exec(pem);
  if (!body) throw new Error("This file holds no private key in PEM. Choose the one that `dermfed-registry people new-key` made, not the .pub beside it.");
  let der;
  try {
    der = bytesOf(body[1].replace(/\s/g, ""));
  } catch {
    throw new Error("This file is damaged: what it holds is no base64.");
  }
  for (const [namedCurve, hash] of CURVES) {
    const algorithm = { name: "ECDSA", namedCurve };
    try {
      const { kty, crv, x, y } = await crypto.subtle.exportKey("jwk", await crypto.subtle.importKey("pkcs8", der, algorithm, true, ["sign"]));
      const half = await crypto.subtle.importKey("jwk", { kty, crv, x, y }, algorithm, true, ["verify"]);
      const digest = await crypto.subtle.digest("SHA-256", await crypto.subtle.exportKey("spki", half));
      return { key: await crypto.subtle.importKey("pkcs8", der, algorithm, false, ["sign"]), hash, fingerprint: `sha256:${hexOf(digest)}` };
    } catch (error) {
      if (!(error instanceof DOMException)) throw error; // of another curve: try the next
    }
  }
  throw new Error("This is no key of P-256, P-384 or P-521; make one with `dermfed-registry people new-key`.");
}

async function chooseKey(field) {
  const state = document.querySelector("#key-state");
  signer = null;
  state.className = "";
  state.textContent = "";
  if (!field.files.length) return;
  try {
    signer = await readKey(field.files[0]);
    state.textContent = `Key ${signer.fingerprint}`;
  } catch (error) {
    state.className = "bad";
    state.textContent = error.message;
  }
}

async function sign(statement) {
  const head = text.encode(`DSSEv1 ${text.encode(KIND).length} ${KIND} ${statement.length} `);
  const whole = new Uint8Array([...head, ...statement]);
  return crypto.subtle.sign({ name: "ECDSA", hash: signer.hash }, signer.key, whole);
}

async function send(path, body) {
  const answer = await fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  let found;
  try {
    found = await answer.json();
  } catch {
    throw new Error(`The service answered ${answer.status}, and not in a form that this page knows.`);
  }
  if (!answer.ok) throw new Error(`${found.title}: ${found.detail}`);
  return found;
}

// Whether statements are of the action that was chosen: a key signs nothing that its owner did not ask for.
function fits(action, statements) {
  return statements.every(
    (one) =>
      MAKES[action.action].includes(one.kind) &&
      one.model === action.model &&
      (!action.alias || one.alias === action.alias) &&
      (one.reason ?? "") === action.reason.trim().replace(/\s+/g, " ") &&
      one.versions.every((number) => (action.versions ?? []).includes(number)) &&
      (!["approved", "promoted"].includes(one.kind) || one.versions.length === action.versions.length) &&
      (one.details.without ?? []).every((name) => (action.without ?? []).includes(name)) &&
      (!one.overridden || action.override === true),
  );
}

// In words what a statement says, from the very bytes that are signed.
function wordsOf(said) {
  const versions = said.versions.length ? ` version${said.versions.length > 1 ? "s" : ""} ${said.versions.join(", ")} of` : "";
  const members = said.details.members ?? [];
  return [
    `${DID[said.kind] ?? said.kind}${versions} ${said.model}${said.alias === null ? "" : `, alias ${said.alias}`}`,
    ...(members.length ? [`who answers then: ${members.map((one) => `version ${one.number} for ${one.subgroup}, ${one.digest.slice(0, 19)}…`).join("; ")}`] : []),
    ...(said.details.without?.length ? [`NO VERSION OF ITS OWN any more: ${said.details.without.join(", ")}; the global one answers`] : []),
    ...(said.kind === "stopped" ? ["who answers then: nobody"] : []),
    ...(said.kind === "withdrawn" ? ["for good: it is never promoted or served again"] : []),
    ...(said.gates ? [`asked: gate set ${said.gates.number}${said.gates.model ? ` of ${said.gates.model}` : " for all models"}`] : []),
    ...(said.overridden ? ["GATES OVERRIDDEN: at least one gate refuses this release"] : []),
    said.reason === null ? "without a reason" : `reason: ${said.reason}`,
  ];
}

function element(name, content, kind) {
  const made = document.createElement(name);
  made.textContent = shown(content);
  if (kind) made.className = kind;
  return made;
}

// Whether the person signs: shows what, and waits for one of the two buttons.
function confirmed(title, person, said) {
  const dialog = document.querySelector("#sign");
  document.querySelector("#sign-title").textContent = title;
  const words = document.querySelector("#sign-words");
  words.replaceChildren(element("p", `You sign, as ${person.name} (${person.roles.join(", ")}):`));
  for (const one of said) {
    const list = document.createElement("ul");
    list.append(...wordsOf(one).map((line) => element("li", line, /^(GATES OVERRIDDEN|NO VERSION OF ITS OWN)/.test(line) ? "bad" : "")));
    words.append(list);
  }
  words.append(element("p", `In the registry ${said[0].registry}. It holds for 15 minutes, and for as long as nothing else is done here.`, "quiet"));
  document.querySelector("#sign-exact").textContent = said.map((one) => shown(JSON.stringify(one, null, 1)).replaceAll("\\u{a}", "\n")).join("\n");
  dialog.showModal();
  document.querySelector("#sign-title").focus();
  return new Promise((decide) => {
    document.querySelector("#sign-yes").onclick = () => dialog.close("yes");
    document.querySelector("#sign-no").onclick = () => dialog.close("no");
    dialog.onclose = () => decide(dialog.returnValue === "yes");
    dialog.returnValue = "no";
  });
}

function asked(form, button) {
  const found = new FormData(form);
  const action = { action: button.value, model: found.get("model"), reason: found.get("reason") ?? "" };
  if (found.has("alias")) action.alias = found.get("alias");
  if (found.has("versions")) action.versions = found.getAll("versions").map(Number);
  if (found.has("numbers")) action.versions = found.get("numbers").split(",").map(Number);
  if (found.has("without")) action.without = found.getAll("without");
  if (found.has("override")) action.override = true;
  return action;
}

async function act(form, button) {
  if (!signer) throw new Error("Choose your private key above first.");
  const request = { action: asked(form, button), fingerprint: signer.fingerprint };
  const { person, statements } = await send("/v1/console/prepare", request);
  if (!statements.length) return "Nothing to do: it is so already.";
  const exact = statements.map(bytesOf);
  const said = exact.map((one) => JSON.parse(new TextDecoder().decode(one)));
  if (!fits(request.action, said)) throw new Error("The service asks for a signature over something else than you chose. Nothing was signed; tell whoever runs it.");
  if (!(await confirmed(button.textContent.replace(" …", ""), person, said))) return NOTHING;
  const signed = [];
  for (const one of exact) signed.push({ statement: base64Of(one), signature: base64Of(await sign(one)) });
  const { done } = await send("/v1/console/act", { ...request, signed });
  return `Done: ${done.map((lines) => lines[0]).join("; ")}`;
}

function say(message, kind) {
  const said = document.querySelector("#said");
  said.className = `said ${kind}`;
  said.textContent = shown(message);
  said.focus();
}

// Another state of the page, without losing the key.
async function show(address) {
  let state;
  try {
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    state = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#state");
  } catch {
    state = null;
  }
  if (!state) return location.assign(address); // let the browser tell what is wrong
  document.querySelector("#state").replaceWith(state);
  history.replaceState(null, "", address);
}

// What was typed into a form whose action was refused, in the form that took its place.
function typedAgain(form) {
  for (const again of document.querySelectorAll("form.act")) {
    if (again.getAttribute("aria-labelledby") !== form.getAttribute("aria-labelledby") || again.ariaLabel !== form.ariaLabel) continue;
    for (const field of form.elements) if (["reason", "numbers"].includes(field.name)) again.elements[field.name].value = field.value;
  }
}

async function submitted(form, button) {
  if (!form.classList.contains("act")) {
    const said = document.querySelector("#said");
    said.className = said.textContent = "";
    await show(`${form.action}?${new URLSearchParams(new FormData(form))}`);
    (document.querySelector("#compared") ?? document.querySelector("#trouble-title") ?? document.querySelector("#choose-title")).focus();
    return;
  }
  const buttons = document.querySelectorAll("form.act button");
  for (const button of buttons) button.disabled = true;
  let message, kind = "";
  document.querySelector("#said").textContent = WAIT;
  try {
    message = await act(form, button);
  } catch (error) {
    [message, kind] = [error.message, "bad"];
  }
  if (message !== NOTHING) await show(location.href);
  if (kind) typedAgain(form);
  for (const button of buttons) button.disabled = false;
  say(message, kind);
}

document.addEventListener("change", (event) => {
  if (event.target.id === "key") chooseKey(event.target);
  if (event.target.id === "model") event.target.form.requestSubmit();
});
document.addEventListener("click", (event) => {
  const reason = event.target.closest("form.act button")?.form.elements.reason; // before the browser looks whether fields are filled
  if (reason) reason.required = event.target.dataset.reason === "needed" || Boolean(event.target.form.elements.override?.checked);
});
document.addEventListener("submit", (event) => {
  event.preventDefault();
  submitted(event.target, event.submitter);
});
if (document.querySelector("#key") && !globalThis.crypto?.subtle) {
  document.querySelector("#key-state").className = "bad";
  document.querySelector("#key-state").textContent = "This browser signs only over https, or on localhost: open this page by such an address. Comparing works as it is.";
}
