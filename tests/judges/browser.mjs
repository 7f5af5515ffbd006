// A headless Chromium that reaches nothing but this machine, and a server for a folder.
import { createRequire } from "node:module";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";

export const PATIENCE_MS = 900_000; // a busy machine is slow, not wrong: speedscope takes minutes for a hundred thousand tasks
const KINDS = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };

/** A page, and lists of the requests and complaints that it made. */
export async function start(paths, options = {}) {
  const { chromium } = createRequire(path.join(paths.modules, "x.js"))("playwright-core");
  const browser = await chromium.launch({ executablePath: paths.chromium, args: ["--no-sandbox", "--disable-gpu"] });
  const context = await browser.newContext({ serviceWorkers: "block", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const requests = [],
    complaints = [];
  await context.route("**/*", (route) => {
    const url = new URL(route.request().url());
    requests.push(url.href);
    const near = ["file:", "data:", "blob:"].includes(url.protocol) || url.hostname === "127.0.0.1";
    return near ? route.continue() : route.abort();
  });
  page.on("console", (line) => {
    if (["error", "warning"].includes(line.type())) complaints.push(`${line.type()}: ${line.text()}`);
  });
  page.on("pageerror", (error) => complaints.push(`error: ${error.message}`));
  return { browser, page, requests, complaints };
}

/** Serve the files of a folder, and some texts by path, on a free port. */
export async function serve(folder, texts = {}) {
  const server = http.createServer((request, response) => {
    const name = decodeURIComponent(new URL(request.url, "http://x").pathname);
    const file = path.join(folder, name === "/" ? "index.html" : name);
    const found = texts[name] ?? (file.startsWith(folder) && fs.existsSync(file) && fs.readFileSync(file));
    if (!found) return response.writeHead(404).end();
    response.writeHead(200, { "content-type": KINDS[path.extname(name)] || "text/html" }).end(found);
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/`, stop: () => server.close() };
}
