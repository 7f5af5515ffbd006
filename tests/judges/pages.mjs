// Opens a page on a screen, in the dark, on a phone and on paper, and lets axe look for barriers. Prints faults as JSON.
// Usage: node pages.mjs PATHS_AS_JSON PAGE FOLDER_FOR_PICTURES
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { start } from "./browser.mjs";

const paths = JSON.parse(process.argv[2]);
const [file, pictures] = process.argv.slice(3);
fs.mkdirSync(pictures, { recursive: true });
const axe = fs.readFileSync(path.join(paths.modules, "axe-core/axe.min.js"), "utf8");
const SCREENS = {
  screen: { viewport: { width: 1280, height: 900 }, colorScheme: "light" },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true },
};
const verdicts = {};
for (const [name, options] of Object.entries(SCREENS)) {
  const { browser, page, requests, complaints } = await start(paths, options);
  const url = pathToFileURL(file).href;
  await page.goto(url);
  await page.keyboard.press("]"); // the facts of an attempt are part of the page
  await page.waitForTimeout(700);
  const faults = complaints.slice(0, 5);
  for (const one of requests) if (!one.startsWith(url) && !one.startsWith("data:")) faults.push("it asks for " + one);
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wider > 1) faults.push(`it is ${wider} px wider than the ${name}`);
  await page.screenshot({ path: path.join(pictures, `page_${name}.png`), fullPage: true });
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  await page.evaluate(axe);
  const barriers = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const found of barriers.violations)
    if (["serious", "critical"].includes(found.impact))
      faults.push(`axe ${found.id}: ${found.help} (${found.nodes[0].target.join(" ")})`);
  verdicts[name] = faults;
  if (name === "screen") {
    await page.emulateMedia({ media: "print" });
    await page.setViewportSize({ width: 1046, height: 720 }); // A4, landscape, without its margins
    const cut = await page.evaluate(() =>
      [...document.querySelectorAll("table")].filter((one) => one.offsetWidth > document.body.clientWidth + 1).length,
    );
    verdicts.paper = cut ? [`${cut} tables are cut off`] : [];
    await page.pdf({ path: path.join(pictures, "page.pdf"), preferCSSPageSize: true, printBackground: true });
  }
  await browser.close();
}
console.log(JSON.stringify(verdicts));
