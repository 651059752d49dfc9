"""Small tools of computation: packing, factorisations, special functions, compiled programs."""
