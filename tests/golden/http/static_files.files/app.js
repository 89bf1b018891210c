const shop = "one line of a script, and another one, and another one, and another one";
