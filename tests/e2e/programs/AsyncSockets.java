import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.AsynchronousChannelGroup;
import java.nio.channels.AsynchronousServerSocketChannel;
import java.nio.channels.AsynchronousSocketChannel;
import java.nio.channels.CompletionHandler;
import java.util.concurrent.Executors;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Echo with asynchronous channels, whose threads take turns at one epoll set: {@code AsyncSockets server|client PORT}. */
public class AsyncSockets {
    static final int CONNECTIONS = 600, AT_ONCE = 4, MESSAGES = 4, SIZE = 1000;

    static AsynchronousChannelGroup group() throws IOException {
        return AsynchronousChannelGroup.withFixedThreadPool(4, Executors.defaultThreadFactory());
    }

    /** A step that goes on while its handler says so, and closes the channel when it does not. */
    interface Next {
        void done(int count) throws Exception;
    }

    static CompletionHandler<Integer, Void> then(AsynchronousSocketChannel channel, Next next) {
        return new CompletionHandler<>() {
            public void completed(Integer count, Void nothing) {
                try {
                    next.done(count);
                } catch (Exception e) {
                    failed(e, null);
                }
            }

            public void failed(Throwable e, Void nothing) {
                System.err.println(e);
                close(channel);
            }
        };
    }

    static void close(AsynchronousSocketChannel channel) {
        try {
            channel.close();
        } catch (IOException e) {
            System.err.println(e);
        }
    }

    static void server(int port) throws Exception {
        AsynchronousServerSocketChannel listener = AsynchronousServerSocketChannel.open(group());
        listener.setOption(StandardSocketOptions.SO_REUSEADDR, true);
        listener.bind(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 128);
        listener.accept(null, new CompletionHandler<AsynchronousSocketChannel, Void>() {
            public void completed(AsynchronousSocketChannel channel, Void nothing) {
                listener.accept(null, this);
                echo(channel, ByteBuffer.allocate(4096));
            }

            public void failed(Throwable e, Void nothing) {
                System.err.println(e);
            }
        });
        Thread.currentThread().join();
    }

    static void echo(AsynchronousSocketChannel channel, ByteBuffer buffer) {
        buffer.clear();
        channel.read(buffer, null, then(channel, count -> {
            if (count < 0) {
                close(channel);
            } else {
                answer(channel, buffer.flip());
            }
        }));
    }

    static void answer(AsynchronousSocketChannel channel, ByteBuffer buffer) {
        channel.write(buffer, null, then(channel, count -> {
            if (buffer.hasRemaining()) {
                answer(channel, buffer);
            } else {
                echo(channel, buffer);
            }
        }));
    }

    /** One connection of the client: messages that come back whole, one after the other. */
    static class Visit {
        final AsynchronousSocketChannel channel;
        final ByteBuffer sent = ByteBuffer.allocate(SIZE), back = ByteBuffer.allocate(SIZE);
        final Semaphore places;
        final AtomicInteger right;
        int left = MESSAGES;

        Visit(AsynchronousChannelGroup group, int port, Semaphore places, AtomicInteger right) throws IOException {
            this.places = places;
            this.right = right;
            channel = AsynchronousSocketChannel.open(group);
            InetAddress here = InetAddress.getByName("127.0.0.1");
            channel.connect(new InetSocketAddress(here, port), null, new CompletionHandler<Void, Void>() {
                public void completed(Void done, Void nothing) {
                    say();
                }

                public void failed(Throwable e, Void nothing) {
                    System.err.println(e);
                    end();
                }
            });
        }

        void end() {
            close(channel);
            places.release();
        }

        void say() {
            if (left-- == 0) {
                end();
                return;
            }
            sent.clear();
            back.clear();
            for (int i = 0; i < SIZE; i++) sent.put(i, (byte) (i * 31 + left));
            send();
        }

        void send() {
            channel.write(sent, null, then(channel, count -> {
                if (sent.hasRemaining()) send(); else receive();
            }));
        }

        void receive() {
            channel.read(back, 10, TimeUnit.SECONDS, null, then(channel, count -> {
                if (count < 0) {
                    end();
                } else if (back.hasRemaining()) {
                    receive();
                } else {
                    if (back.flip().equals(sent.flip())) right.incrementAndGet();
                    say();
                }
            }));
        }
    }

    static void client(int port) throws Exception {
        AsynchronousChannelGroup group = group();
        Semaphore places = new Semaphore(AT_ONCE);
        AtomicInteger right = new AtomicInteger();
        int begun = 0;
        while (begun < CONNECTIONS && places.tryAcquire(15, TimeUnit.SECONDS)) {
            new Visit(group, port, places, right);
            begun++;
        }
        boolean ended = places.tryAcquire(AT_ONCE, 15, TimeUnit.SECONDS);
        System.out.println(begun + " connections, " + right + " messages came back, all ended: " + ended);
        System.exit(0);
    }

    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[1]);
        if (args[0].equals("server")) server(port); else client(port);
    }
}
