<?php // `imported.php PORT`: a stream of PHP's core that ext/sockets, a module, reads and writes as well.
$stream = stream_socket_client("tcp://127.0.0.1:$argv[1]");
$socket = socket_import_stream($stream);
$total = 0;
for ($i = 0; $i < 1000; $i++) {
    $text = str_repeat(chr(97 + $i % 26), 1000);
    $sent = $i & 1 ? socket_write($socket, $text) : fwrite($stream, $text);
    if ($sent !== 1000) die("sent $sent\n");
    $back = '';
    while (strlen($back) < 1000) {
        $read = [$socket];
        $none = null;
        if (socket_select($read, $none, $none, 5) !== 1) die("nothing to read\n");
        $part = $i & 2 ? socket_read($socket, 1000 - strlen($back)) : fread($stream, 1000 - strlen($back));
        if ($part === false || $part === '') die("the end\n");
        $back .= $part;
    }
    if ($back !== $text) die("other bytes\n");
    $total += strlen($back);
}
echo "exchanged $total\n";
