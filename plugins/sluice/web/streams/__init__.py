"""The pages of streams: one for all, one of each.

``pages`` has the routes, ``overview`` what a stream shows; what a component shows is
of ``supervision/observer/component_view``, its HTML the macros of ``templates/parts.html``.
"""
