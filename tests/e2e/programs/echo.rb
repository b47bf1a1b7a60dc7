# Echo with ruby sockets: `echo.rb server PORT` or `echo.rb client PORT`.
require 'socket'
role, port = ARGV[0], ARGV[1].to_i
if role == 'server'
  listener = TCPServer.new('127.0.0.1', port)
  loop { Thread.new(listener.accept) { |c| while (l = c.gets) do c.puts "echo #{l}" end; c.close } }
else
  s = TCPSocket.new('127.0.0.1', port)
  puts (1..300).sum { |i| s.puts "line #{i} " + 'x' * i * 10; s.gets.length }
end
