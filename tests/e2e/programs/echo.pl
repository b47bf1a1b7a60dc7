# Echo with buffered perl streams: `echo.pl server PORT` or `echo.pl client PORT`.
use strict;
use warnings;
use IO::Socket::INET;
my ($role, $port) = @ARGV;
$| = 1;
if ($role eq 'server') {
    my $l = IO::Socket::INET->new(LocalAddr => "127.0.0.1:$port", Listen => 10, ReuseAddr => 1) or die $!;
    while (my $c = $l->accept) {
        while (my $line = <$c>) { print $c "echo $line"; $c->flush; }
        close $c;
    }
} else {
    my $s = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die $!;
    my $sum = 0;
    for my $i (1 .. 300) {
        print $s "line $i " . ("x" x ($i * 10)) . "\n";
        $s->flush;
        my $back = <$s>;
        $sum += length $back;
        die "wrong: $back" unless $back =~ /^echo line $i x+$/;
    }
    print "sum $sum\n";
}
