"""The part of the lab that runs on the controller: what machines are told, and what their answers may be."""
