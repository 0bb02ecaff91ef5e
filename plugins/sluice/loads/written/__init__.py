"""What a load wrote: objects, versions and the budget of its audit."""
