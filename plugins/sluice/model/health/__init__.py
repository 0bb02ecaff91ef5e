"""How a component is: observations in, health report out."""
