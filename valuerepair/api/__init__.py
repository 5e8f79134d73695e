"""The public Python interface: the functions of `import valuerepair`, which the commands of `vr` call, too."""
