// Shows the chosen pictures beside their answer, from the browser's own memory. Without this script the form works as well.
const addresses = new Map();

function show(field) {
  const [file] = field.files;
  const frame = document.querySelector(`#preview-${field.id}`);
  if (addresses.has(field.id)) URL.revokeObjectURL(addresses.get(field.id));
  addresses.delete(field.id);
  if (file && file.type.startsWith("image/")) addresses.set(field.id, URL.createObjectURL(file));
  frame.hidden = !addresses.has(field.id);
  if (frame.hidden) return;
  const picture = frame.querySelector("img");
  picture.onerror = () => (frame.hidden = true); // the name says a picture, and the browser finds none
  picture.src = addresses.get(field.id);
}

// An answer stands beside the pictures that it is of, and beside no others.
function forget() {
  document.querySelector(".answer")?.remove();
  document.querySelector(".beside")?.classList.replace("beside", "alone");
}

// The pictures within the answer: small and in sight on a phone, and on paper.
function keep() {
  const place = document.querySelector("#asked");
  for (const frame of document.querySelectorAll(".picture figure:not([hidden]) img")) {
    place?.append(frame.cloneNode());
  }
  if (place) place.hidden = !place.children.length;
}

function focusOn(heading) {
  heading.tabIndex = -1;
  heading.focus();
  heading.scrollIntoView({ block: "nearest" });
}

// Says within the form what went wrong, so that what was chosen stays.
function tell(title, ...said) {
  const heading = document.createElement("h3");
  heading.textContent = title;
  const place = document.querySelector("#trouble");
  place.replaceChildren(heading, ...said);
  focusOn(heading);
}

function sentence(text) {
  const said = document.createElement("p");
  said.textContent = text;
  return said;
}

function busy(form, text) {
  const button = form.querySelector("#submit");
  button.dataset.text ??= button.textContent;
  button.textContent = text || button.dataset.text;
  button.disabled = Boolean(text);
  form.querySelector("#progress").textContent = text;
}

async function ask(form) {
  const { busy: looking, unreachable, again } = form.dataset;
  busy(form, looking);
  document.querySelector("#trouble").replaceChildren();
  let answer, page;
  try {
    answer = await fetch(form.action, { method: "POST", body: new FormData(form), headers: { Accept: "text/html" } });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    forget();
    busy(form, "");
    return tell(unreachable, sentence(again));
  }
  const main = page.querySelector("main");
  const problem = page.querySelector("#problem");
  if (!main || problem) {
    forget();
    busy(form, "");
    if (problem) return tell(problem.querySelector("h1").textContent, ...problem.querySelectorAll("p"));
    // No page of ours: a failure, or a proxy that does not let the picture through and says so in its own words.
    const words = page.body.innerText.trim().slice(0, 500);
    return tell(`${unreachable} (${answer.status})`, ...(words ? [sentence(words)] : []), sentence(again));
  }
  for (const field of document.querySelectorAll("input[type=file]")) {
    const frame = document.querySelector(`#preview-${field.id}`);
    main.querySelector(`#${field.id}`)?.replaceWith(field);
    main.querySelector(`#preview-${field.id}`)?.replaceWith(frame);
  }
  document.querySelector("main").replaceWith(main);
  document.title = page.title;
  keep();
  focusOn(document.querySelector("#answer") ?? document.querySelector("h1"));
}

document.addEventListener("change", (event) => {
  if (event.target.type !== "file") return;
  forget();
  show(event.target);
});
document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[enctype]")) return; // that of an outcome has a page of its own
  event.preventDefault();
  ask(event.target);
});
