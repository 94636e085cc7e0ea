"""Follows every link of the rendered book: each file is there, and each anchor in it."""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.update(value for name in ("id", "name") if (value := attributes.get(name)))
        self.links += [value for name in ("href", "src") if (value := attributes.get(name))]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = {path: Page(path) for path in sorted(root.rglob("*.html"))}
    troubles, followed = [], 0
    for path, page in pages.items():
        # The page of all pages repeats the others' anchors, and the page of what is missing has another base.
        if path.name in ("print.html", "404.html", "toc.html"):
            continue
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                troubles.append(f"{path.relative_to(root)}: {link} leads out of the book")
                continue
            followed += 1
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file() or root not in target.parents:
                troubles.append(f"{path.relative_to(root)}: {link} leads nowhere")
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                troubles.append(f"{path.relative_to(root)}: {link}: no such heading")
    for trouble in troubles:
        print(trouble, file=sys.stderr)
    if troubles or not followed:
        sys.exit(1)
    print(f"{len(pages)} pages, {followed} links followed")


if __name__ == "__main__":
    main()
