CODE="pass"
SETTINGS={}
