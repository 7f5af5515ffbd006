// Opens a trace in Perfetto, speedscope and chrome://tracing, and prints as JSON what each of them made of it.
// Usage: node viewers.mjs PATHS_AS_JSON TRACE FOLDER_FOR_PICTURES
import fs from "node:fs";
import path from "node:path";
import zlib from "node:zlib";
import { serve, start } from "./browser.mjs";

const paths = JSON.parse(process.argv[2]);
const [file, pictures] = process.argv.slice(3);
const packed = fs.readFileSync(file);
const text = file.endsWith(".gz") ? zlib.gunzipSync(packed) : packed;
const events = JSON.parse(text);
const count = (...kinds) => events.filter((event) => kinds.includes(event.ph)).length;
const inFile = {
  spans: count("X"),
  waits: count("b"),
  notes: count("i"),
  arrows: count("f"),
  rows: new Set(events.filter((event) => event.ph === "X").map((event) => `${event.pid} ${event.tid}`)).size,
};
const verdicts = { file: inFile };
fs.mkdirSync(pictures, { recursive: true });
const shot = (page, name) => page.screenshot({ path: path.join(pictures, name + ".png") });

async function perfetto() {
  const { browser, page } = await start(paths, { viewport: { width: 1500, height: 850 } });
  const server = await serve(path.join(paths.viewers, "web_dist"));
  try {
    // This build of the page asks the program that serves it for the trace.
    const answer = (glob, body) => page.route(glob, (route) => route.fulfill({ status: 200, body }));
    await answer("**/vizviewer_info", "{}");
    await answer("**/file_info", "{}");
    await answer("**/localtrace", packed);
    await page.goto(server.url);
    await page.waitForFunction(() => window.app && window.app.trace);
    const found = await page.evaluate(async () => {
      const ask = async (sql) => {
        const result = await window.app.trace.engine.query(sql);
        const rows = [];
        for (const row = result.iter({}); row.valid(); row.next())
          rows.push(result.columns().map((name) => (typeof row.get(name) === "bigint" ? Number(row.get(name)) : row.get(name))));
        return rows;
      };
      return {
        spans: (await ask("select count(*) from slice"))[0][0],
        unfinished: (await ask("select count(*) from slice where dur < 0"))[0][0],
        arrows: (await ask("select count(*) from flow"))[0][0],
        problems: await ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0"),
        unnamed: (await ask("select count(*) from thread_track join thread using (utid) where thread.name is null"))[0][0],
      };
    });
    await page.waitForTimeout(1500);
    await shot(page, "perfetto");
    const wanted = inFile.spans + inFile.waits + inFile.notes;
    const faults = found.problems.map(([name, value]) => `${name} = ${value}`);
    if (found.spans !== wanted) faults.push(`${found.spans} of ${wanted} spans`);
    if (found.arrows !== inFile.arrows) faults.push(`${found.arrows} of ${inFile.arrows} arrows`);
    if (found.unfinished) faults.push(`${found.unfinished} spans do not end`);
    if (found.unnamed) faults.push(`${found.unnamed} rows have no name`);
    return faults;
  } finally {
    server.stop();
    await browser.close();
  }
}

async function speedscope() {
  const { browser, page, complaints } = await start(paths, { viewport: { width: 1500, height: 850 } });
  const server = await serve(path.join(paths.modules, "speedscope/dist/release"));
  try {
    const said = [];
    page.on("console", (line) => said.push(line.text()));
    await page.goto(server.url);
    await page.waitForSelector("input[type=file]", { state: "attached" });
    await page.setInputFiles("input[type=file]", file);
    await page.waitForFunction(() => /Left Heavy|Something went wrong/.test(document.body.innerText));
    await page.waitForTimeout(500);
    await shot(page, "speedscope");
    const shown = await page.evaluate(() => document.body.innerText);
    const faults = complaints.filter((line) => !/WebGL|GL Driver|favicon|404/.test(line));
    if (/Something went wrong/.test(shown)) faults.push("it could not import the file");
    const profiles = Number((shown.match(/\(\d+\/(\d+)\)/) || [0, 1])[1]);
    if (profiles !== inFile.rows) faults.push(`${profiles} of ${inFile.rows} rows`);
    faults.push(...said.filter((line) => /Tried to|mismatch|no matching/i.test(line)));
    return faults.slice(0, 5);
  } finally {
    server.stop();
    await browser.close();
  }
}

async function chromeTracing() {
  const { browser, page } = await start(paths, { viewport: { width: 1500, height: 850 } });
  const viewer = fs.readFileSync(path.join(paths.viewers, "html/trace_viewer_full.html"), "utf8");
  const old = fs.readFileSync(path.join(paths.modules, "webcomponents.js/webcomponents.min.js"), "utf8");
  const quiet = "<script>window.__hideTraceViewerPolyfillWarning = true</script>";
  const index = `<!doctype html><meta charset="utf-8">${quiet}<script src="/old.js"></script>${viewer}`;
  const server = await serve("/nowhere", { "/": index, "/old.js": old, "/trace": text });
  try {
    await page.goto(server.url);
    await page.waitForFunction(() => window.tr && window.tr.importer && window.tr.importer.Import);
    const found = await page.evaluate(async () => {
      const model = new tr.Model();
      new tr.importer.Import(model).importTraces([await (await fetch("/trace")).text()]);
      let spans = 0;
      for (const thread of model.getAllThreads()) spans += thread.sliceGroup.slices.length;
      return { spans, warnings: model.importWarnings.map((warning) => warning.message) };
    });
    const faults = found.warnings.slice(0, 5);
    const most = inFile.spans + inFile.notes;
    if (found.spans < inFile.spans || found.spans > most) faults.push(`${found.spans} of ${inFile.spans} spans`);
    return faults;
  } finally {
    server.stop();
    await browser.close();
  }
}

for (const judge of [perfetto, speedscope, chromeTracing]) {
  if (!inFile.spans && judge !== chromeTracing) continue; // there is nothing to open
  try {
    verdicts[judge.name] = await judge();
  } catch (error) {
    verdicts[judge.name] = [`${error.name}: ${error.message.split("\n")[0]}`];
  }
}
console.log(JSON.stringify(verdicts));
