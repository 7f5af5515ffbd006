"""Six pages are fetched over an unreliable line. It takes a long time, and only two pages arrive."""
import miniray as ray

PAGES = {"/": "home", "/about": "about"}
WANTED = ["/", "/about", "/news", "/team", "/jobs", "/press"]


@ray.remote(max_retries=8, retry_exceptions=True)
def fetch(path):
    """The text of a page."""
    if path not in PAGES:
        raise LookupError(f"404 {path}")
    return PAGES[path]


ray.init(num_cpus=2, log_to_driver=False)
came = 0
for ref in [fetch.remote(path) for path in WANTED]:
    try:
        ray.get(ref)
        came += 1
    except LookupError:
        pass
print(f"{came} of {len(WANTED)} pages")
