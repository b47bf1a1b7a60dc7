"""Answers each line with "echo LINE", then ends on "bye": `line_server.py PORT`."""
import socketserver
import sys


class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(b"echo " + line)
            if line.strip() == b"bye":
                return


socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("127.0.0.1", int(sys.argv[1])), Lines).serve_forever()
