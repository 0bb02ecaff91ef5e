"""The pages of streams: one for all, one of each.

``pages`` has the routes, ``overview`` what a stream shows; what a component shows is
``supervision/observer``'s, its HTML the macros of ``templates/parts.html``.
"""
