"""A crawler over a web of local files: follow every link once, as many pages at a time as there are CPUs.

The driver keeps track of the pages seen and the tasks under way. A task reads one page and returns its title and links.
As soon as a page is read, the driver submits its new links. A broken link fails only its own task.

Prints:

    index.html     Welcome
    cats.html      All about cats
    dogs.html      All about dogs
    food.html      What they eat
    fish.html      Fish
    missing.html   broken: FileNotFoundError
    6 links followed, each once
"""

import os
import tempfile
from html.parser import HTMLParser

import ray

SITE = {
    "index.html": ("Welcome", ["cats.html", "dogs.html"]),
    "cats.html": ("All about cats", ["food.html", "dogs.html", "index.html"]),
    "dogs.html": ("All about dogs", ["food.html", "cats.html", "missing.html"]),
    "food.html": ("What they eat", ["fish.html", "index.html"]),
    "fish.html": ("Fish", []),
}


class PageParser(HTMLParser):
    def __init__(self):
        super().__init__()
        self.title, self.links, self.in_title = "", [], False

    def handle_starttag(self, tag, attributes):
        self.in_title = tag == "title"
        if tag == "a":
            self.links.append(dict(attributes)["href"])

    def handle_data(self, data):
        if self.in_title:
            self.title, self.in_title = data, False


@ray.remote(max_retries=0)
def read_page(folder, name):
    parser = PageParser()
    with open(os.path.join(folder, name), encoding="utf-8") as file:
        parser.feed(file.read())
    return parser.title, parser.links


def crawl(folder, start):
    titles, under_way = {start: None}, {read_page.remote(folder, start): start}
    while under_way:
        [ready], _ = ray.wait(list(under_way))
        name = under_way.pop(ready)
        try:
            titles[name], links = ray.get(ready)
        except FileNotFoundError:
            titles[name], links = "broken: FileNotFoundError", []
        for link in links:
            if link not in titles:
                titles[link] = None
                under_way[read_page.remote(folder, link)] = link
    return titles


ray.init(num_cpus=2)

with tempfile.TemporaryDirectory() as folder:
    for name, (title, links) in SITE.items():
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(f"<html><title>{title}</title>" + "".join(f'<a href="{link}">go</a>' for link in links))
    titles = crawl(folder, "index.html")

for name in [*SITE, *sorted(titles.keys() - SITE.keys())]:
    print(f"{name:14} {titles[name]}")
print(len(titles), "links followed, each once")

ray.shutdown()
