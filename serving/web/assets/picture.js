// Shows the chosen pictures beside their answer, from the browser's own memory. Without this script the form works as well.
const addresses = new Map();

function show(field) {
  const [file] = field.files;
  const frame = document.querySelector(`#preview-${field.id}`);
  if (addresses.has(field.id)) URL.revokeObjectURL(addresses.get(field.id));
  addresses.delete(field.id);
  if (file && file.type.startsWith("image/")) addresses.set(field.id, URL.createObjectURL(file));
  frame.hidden = !addresses.has(field.id);
  if (!frame.hidden) frame.querySelector("img").src = addresses.get(field.id);
}

function leave(form) {
  HTMLFormElement.prototype.submit.call(form); // form.submit is the button of this name
}

async function ask(form) {
  const fields = document.querySelectorAll("input[type=file]");
  const button = document.querySelector("#submit");
  button.textContent = "Looking at the picture …";
  button.disabled = true;
  const body = new FormData(form);
  let page;
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
    page = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    return leave(form); // let the browser tell what is wrong
  }
  const main = page.querySelector("main");
  if (!main) return leave(form); // no page of ours: a failure, or a proxy that does not let the picture through
  for (const field of fields) {
    const frame = document.querySelector(`#preview-${field.id}`);
    main.querySelector(`#${field.id}`)?.replaceWith(field);
    main.querySelector(`#preview-${field.id}`)?.replaceWith(frame);
  }
  document.querySelector("main").replaceWith(main);
  document.title = page.title;
  const heading = document.querySelector("#answer") ?? document.querySelector("h1");
  heading.tabIndex = -1;
  heading.focus();
}

document.addEventListener("change", (event) => event.target.type === "file" && show(event.target));
document.addEventListener("submit", (event) => {
  event.preventDefault();
  ask(event.target);
});
