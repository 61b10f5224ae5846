"""The page that a person sees at the root of a demo vendor."""

from html import escape

from demo import DemoVendor
from demo.published_tools import PublishedTools

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
}

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<link rel="icon" href="data:,">
<style>
  :root {{ color-scheme: light dark; }}
  body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 3rem auto; padding: 0 1rem; }}
  h1 {{ line-height: 1.2; margin-bottom: 0; }}
  h2 {{ font-size: 1.1rem; margin-top: 2.5rem; }}
  button {{ font: inherit; padding: .5rem 1rem; cursor: pointer; }}
  li {{ margin: .4rem 0; }}
  table {{ border-collapse: collapse; }}
  td, th {{ text-align: left; padding: .2rem 1.5rem .2rem 0; font-weight: normal; }}
  th {{ border-bottom: 1px solid; }}
</style>
</head>
<body>
<h1>{name}</h1>
<p>{blurb}</p>
<p>An invented vendor for trying things out. It offers {count} tools at <a href="/tools">/tools</a>.</p>
{publishing}
{members}
<h2>Tools</h2>
<table>
<thead><tr><th scope="col">Name</th><th scope="col">Version</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</body>
</html>
"""

MEMBERS = """<h2>For members</h2>
<p>The same tools are at <code>/members</code>, for members with an access token (OAuth 2). The client
is called <code>pegboard</code> and its secret is <code>fair-weather-friends</code>; it may ask for itself,
or send you here to sign in.</p>"""

PUBLISHING = """<h2>Publish something</h2>
<p>{invitation}</p>
<form method="post" action="{action}"><button>{label}</button></form>
{news}"""


def render(vendor: DemoVendor, published_tools: PublishedTools) -> str:
    tools = sorted(published_tools.tools.values(), key=lambda t: t.name)
    rows = [f"<tr><td><code>{escape(t.name)}</code></td><td>{t.current_version}</td></tr>" for t in tools]
    return PAGE.format(
        name=escape(vendor.name),
        blurb=escape(vendor.blurb),
        count=len(tools),
        publishing=_publishing(published_tools) if vendor.publishes else "",
        members=MEMBERS if vendor.has_members else "",
        rows="\n".join(rows),
    )


def _publishing(published_tools: PublishedTools) -> str:
    remaining = len(published_tools.steps) - published_tools.steps_taken
    if remaining:
        invitation = (
            f"See how a change arrives: {remaining} of {len(published_tools.steps)} steps are left. "
            "Publish one, then enumerate this vendor again."
        )
        action, label = "/demo/publish", "Publish the next version"
    else:
        invitation = (
            "Everything has been published. Starting over takes versions back, "
            "which a catalog that has seen the newer ones will refuse to follow."
        )
        action, label = "/demo/reset", "Start over"
    items = "\n".join(f"<li>{escape(n)}</li>" for n in published_tools.news)
    news = f"<ol>\n{items}\n</ol>" if items else ""
    return PUBLISHING.format(invitation=invitation, action=action, label=label, news=news)
